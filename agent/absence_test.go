package agent

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/plugin"
)

// After a freeze of the agent, only a connection from before it proves the list complete.
func TestListAfterAnAbsence(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	held := plugin.Status{Phase: plugin.Synchronized, Since: start}
	for name, c := range map[string]struct {
		before, now plugin.Status
		confirmed   bool
	}{
		"the same connection": {held, held, true},
		"a new connection": {held,
			plugin.Status{Phase: plugin.Synchronized, Since: start.Add(1)}, false},
		"no connection": {held, plugin.Status{Phase: plugin.Disconnected, Since: start}, false},
		"a connection without a list": {plugin.Status{Phase: plugin.Configured, Since: start},
			plugin.Status{Phase: plugin.Configured, Since: start}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var status atomic.Pointer[plugin.Status]
			confirmed := 0
			status.Store(&c.before)
			confirmList(func() plugin.Status { return *status.Load() }, func() { confirmed++ })
			status.Store(&c.now)
			time.Sleep(time.Hour)
			synctest.Wait()
			if (confirmed == 1) != c.confirmed || confirmed > 1 {
				t.Errorf("%s: confirmed %d times, want it: %t", name, confirmed, c.confirmed)
			}
		})
	}
}
