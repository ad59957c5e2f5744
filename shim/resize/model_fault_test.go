package resize_test

import (
	"errors"
	"sync"

	"github.com/mooring-vm/mooring/shim/resize"
)

// fault is the failure of a call.
type fault string

const (
	refuseBefore fault = "refused"
	refuseAfter  fault = "refused after its effect"
	loseBefore   fault = "connection lost"
	loseAfter    fault = "connection lost after its effect"
	outage       fault = "connection lost for long"
	killBefore   fault = "killed"
	killAfter    fault = "killed after its effect"
	migrate      fault = "a migration starts without a block check"
	change       fault = "the target changes"
	lowerLimit   fault = "the container's limit falls"
)

var allFaults = []fault{
	refuseBefore,
	refuseAfter,
	loseBefore,
	loseAfter,
	outage,
	killBefore,
	killAfter,
	migrate,
	change,
	lowerLimit,
}

// shimKilled is the panic that ends a shim.
type shimKilled struct{}

var errFault = errors.New("injected fault")

// calls counts the calls and injects faults.
type calls struct {
	n         int
	faults    map[int]fault
	lostCalls int  // further calls with a lost connection
	dead      bool // the shim is dead: its calls have no effect

	sawMigration bool
	migrate      func()
	change       func()
	lowerLimit   func()
}

func (c *calls) call(lost error, effect func() error) error {
	if c.dead {
		return errFault
	}
	f := c.faults[c.n]
	c.n++
	if c.lostCalls > 0 {
		c.lostCalls--
		return lost
	}
	switch f {
	case refuseBefore:
		return errFault
	case loseBefore:
		return lost
	case outage:
		c.lostCalls = 60
		return lost
	case killBefore:
		c.kill()
	case migrate:
		c.migrate()
	case change:
		c.change()
	case lowerLimit:
		c.lowerLimit()
	}
	err := effect()
	switch f {
	case refuseAfter:
		return errFault
	case loseAfter:
		return lost
	case killAfter:
		c.kill()
	}
	return err
}

func (c *calls) kill() {
	c.dead = true
	panic(shimKilled{})
}

// memoryJournal is a journal that survives the shim. Its writes may fail.
type memoryJournal struct {
	mu    sync.Mutex
	calls *calls
	text  []byte
}

func (j *memoryJournal) Load() (resize.Record, error) {
	if j.text == nil {
		return resize.Record{}, resize.ErrNoRecord
	}
	return resize.DecodeRecord(j.text)
}

func (j *memoryJournal) Store(r resize.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.calls.call(errFault, func() error {
		text, err := r.Encode()
		j.text = text
		return err
	})
}
