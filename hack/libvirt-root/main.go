// Command libvirt-root prints the path of a root file system with the libvirt and QEMU of a Debian
// release. If the cache lacks the file system, the command makes it, which needs root and half a
// minute. Tests use the libvirt in MOORING_LIBVIRT_ROOT.
//
//	go run ./hack/libvirt-root forky
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hack/libvirt-root:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("want one argument, a Debian release such as forky")
	}
	path, err := root(ctx, args[0], slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err == nil {
		fmt.Println(path)
	}
	return err
}
