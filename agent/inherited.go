package agent

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// inheritedMemlock reads the RLIMIT_MEMLOCK of the container runtime, which new containers inherit.
type inheritedMemlock struct {
	logger *slog.Logger
	pid    func() int // of the runtime; 0: unknown
	read   func(pid int) (host.Rlimit, error)

	mutex  sync.Mutex
	logged string // pid and error of the last warning; empty after a success
}

// limit returns the runtime's limit; nil: unknown. The plugin calls it for each new launcher, so it
// logs an error once, and again after a success or a restart of the runtime.
func (i *inheritedMemlock) limit() *host.Rlimit {
	pid := i.pid()
	if pid == 0 {
		return nil
	}
	limit, err := i.read(pid)
	cause := ""
	if err != nil {
		cause = fmt.Sprint(pid, err)
	}
	i.mutex.Lock()
	repeated := cause == i.logged
	i.logged = cause
	i.mutex.Unlock()
	if err == nil {
		return &limit
	}
	if !repeated {
		i.logger.Warn("the memory lock that containers inherit is unknown", "pid", pid,
			"error", err)
	}
	return nil
}
