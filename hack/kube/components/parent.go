package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// endWithParent sees to it that this process is killed when its parent is gone,
// whatever ended that one. PR_SET_PDEATHSIG would follow the parent's thread
// instead, and those of a Go program come and go.
func endWithParent() error {
	parent := os.Getppid()
	fd, err := unix.PidfdOpen(parent, 0)
	if err != nil {
		return fmt.Errorf("watching the parent process %d: %w", parent, err)
	}
	if now := os.Getppid(); now != parent {
		return fmt.Errorf("the parent process %d is gone", parent)
	}
	go func() {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	}()
	return nil
}
