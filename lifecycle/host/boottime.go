package host

import "time"

// Boottime is a time since the boot of the node, suspension included (CLOCK_BOOTTIME). It cannot be
// set, and it stays valid across restarts of the agent.
type Boottime time.Duration

// Add returns the time d after b.
func (b Boottime) Add(d time.Duration) Boottime { return b + Boottime(d) }

// Sub returns the duration from earlier to b.
func (b Boottime) Sub(earlier Boottime) time.Duration { return time.Duration(b - earlier) }

// Clock returns the current time. It may be used concurrently.
type Clock interface{ Now() Boottime }
