// Command twin has a child with a process number of the caller's choice, as soon as
// the number is free, and waits for its end:
//
//	twin NUMBER
//
// Tests run it on a node to put a stranger in the place of a process that has ended.
// It needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN.
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
	// patience is how long a number may be somebody else's: that of a zombie is,
	// until its parent has waited for it.
	patience = time.Minute
	tick     = 10 * time.Millisecond
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "twin:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%d arguments: want one, the process number", len(args))
	}
	number, err := strconv.Atoi(args[0])
	if err != nil || number <= 0 {
		return fmt.Errorf("process number %q: want a number above 0", args[0])
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := start(ctx, number); err != nil {
		return err
	}
	_, err = unix.Wait4(number, nil, 0, nil)
	return err
}

// start makes the child once nobody else has the number.
func start(ctx context.Context, number int) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		_, err := clonetest.Child{Number: number, Signal: unix.SIGCHLD, Code: clonetest.Forever}.Start()
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w, after %v", err, patience)
		case <-ticker.C:
		}
	}
}
