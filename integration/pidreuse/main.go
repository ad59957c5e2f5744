// Command pidreuse creates a child with a given pid as soon as the pid is free, and waits for the
// child's end:
//
//	pidreuse PID
//
// Tests run it on a node to give the pid of an ended process to a new one. It needs
// CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/bpf/clonetest"
)

const (
	// waitTimeout is the longest wait for the pid. A zombie keeps its pid until its parent has
	// waited for it.
	waitTimeout = time.Minute
	tick        = 10 * time.Millisecond
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pidreuse:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%d arguments: want one, the pid", len(args))
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil || pid <= 0 {
		return fmt.Errorf("pid %q: want a number above 0", args[0])
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	if err := startWhenFree(ctx, pid); err != nil {
		return err
	}
	_, err = unix.Wait4(pid, nil, 0, nil)
	return err
}

// startWhenFree creates the child when the pid is free.
func startWhenFree(ctx context.Context, pid int) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		_, err := clonetest.Child{Number: pid, Signal: unix.SIGCHLD,
			Code: clonetest.Forever}.Start()
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w, after %v", err, waitTimeout)
		case <-ticker.C:
		}
	}
}
