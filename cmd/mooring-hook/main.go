// Command mooring-hook is the program at /run/mooring/hook in launchers. It sends the pod's
// stop request to the node's agent and waits for the confirmation. It also sends heartbeats. On the
// node, libvirt runs a copy as the start gate.
//
// It must run in any image and as any user. So it is static and small, reads no configuration,
// and needs neither /proc nor a writable file system.
package main

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/internal/buildinfo"
)

// version is set by release builds.
var version string

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	p := program{out: os.Stdout, errOut: os.Stderr, build: buildinfo.Read(version)}
	return p.run(ctx, commandOf(os.Args))
}
