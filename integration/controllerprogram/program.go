// Package controllerprogram has a test binary be mooring-controller, so that tests run it
// in a process of its own, with what they are themselves built with, such as -race.
package controllerprogram

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/mooring-vm/mooring/internal/buildinfo"
	"github.com/mooring-vm/mooring/quota/command"
)

// Name is the first argument that makes a test binary mooring-controller.
const Name = "mooring-controller"

// Main is for TestMain to begin with: where the process is to be mooring-controller, it is,
// and does not return.
func Main() {
	if len(os.Args) > 1 && os.Args[1] == Name {
		os.Exit(serve(os.Args[2:]))
	}
}

func serve(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	root := command.Command(buildinfo.Info{Version: "test"}, os.Stderr)
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}
