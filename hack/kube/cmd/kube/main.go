// Command kube builds the control plane that tests run against, or finds it in
// the cache, and prints the folder that holds its programs. `go test` needs not
// be told: the point is to build ahead of the tests and beyond their time-out.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/mooring-vm/mooring/hack/kube"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	entry, err := kube.Build(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hack/kube:", err)
		os.Exit(1)
	}
	fmt.Println(entry.Dir)
}
