package child

import (
	"os"
	"syscall"
)

// Detach closes the terminal of this process, and the pipe to its parent.
func Detach() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	for fd := range 3 {
		_ = syscall.Dup3(int(null.Fd()), fd, 0)
	}
	_ = null.Close()
}
