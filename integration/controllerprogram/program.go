// Package controllerprogram makes a test binary run as mooring-controller. Tests start their own
// binary as a separate process. The process therefore has the build flags of the tests, such as
// -race.
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

// Name is the first argument of a test binary in the role of mooring-controller.
const Name = "mooring-controller"

// Main belongs at the start of TestMain. With Name as first argument it runs mooring-controller
// and exits. Otherwise it returns at once.
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
