// Command kubevirt builds the programs of KubeVirt that tests run, or finds them
// in the cache, and prints the folder that holds them. `go test` needs not be
// told: the point is to build ahead of the tests and beyond their time-out.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/mooring-vm/mooring/hack/kubevirt"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	entry, err := kubevirt.Build(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hack/kubevirt:", err)
		os.Exit(1)
	}
	fmt.Println(entry.Dir)
}
