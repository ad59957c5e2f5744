package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// endWithParent sees to it that this process is killed when its parent is gone,
// whatever ended that one. PR_SET_PDEATHSIG would follow the one thread of the
// parent that forked, and the threads of a Go program come and go.
func endWithParent() error {
	parent := os.Getppid()
	fd, err := unix.PidfdOpen(parent, 0)
	if err != nil {
		return fmt.Errorf("watching the parent process %d: %w", parent, err)
	}
	if os.Getppid() != parent { // the pid may be somebody else's by now
		return fmt.Errorf("the parent process %d is gone", parent)
	}
	go func() {
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	}()
	return nil
}
