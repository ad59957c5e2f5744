package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// endWithParent kills this process when its parent has ended for any reason. PR_SET_PDEATHSIG would
// follow the thread of the parent that forked, and threads of a Go program end before the process.
// The first process of a container has no parent in its pid namespace, and ends with the container.
func endWithParent() error {
	parent := os.Getppid()
	if parent == 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(parent, 0)
	if err != nil {
		return fmt.Errorf("watching the parent process %d: %w", parent, err)
	}
	if os.Getppid() != parent { // another process may have the pid now
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
