package host

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// LinuxClock is the kernel's clock.
type LinuxClock struct{}

// Now implements [Clock].
func (LinuxClock) Now() Boottime {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("CLOCK_BOOTTIME must exist on Linux: %v", err))
	}
	return Boottime(ts.Nano())
}
