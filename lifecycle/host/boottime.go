package host

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Boottime is a moment: the time since the node booted, suspension included
// (CLOCK_BOOTTIME). Nobody can set that clock, and it means the same to an agent
// that was started again.
type Boottime time.Duration

// Add returns the moment d later.
func (b Boottime) Add(d time.Duration) Boottime { return b + Boottime(d) }

// Sub returns how long b is after earlier.
func (b Boottime) Sub(earlier Boottime) time.Duration { return time.Duration(b - earlier) }

// Clock tells what time it is. It may be asked by several goroutines at once.
type Clock interface{ Now() Boottime }

// LinuxClock is the kernel's clock.
type LinuxClock struct{}

// Now implements [Clock].
func (LinuxClock) Now() Boottime {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("CLOCK_BOOTTIME, which every Linux has: %v", err))
	}
	return Boottime(ts.Nano())
}
