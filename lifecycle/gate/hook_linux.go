package gate

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"
)

const (
	// timeout bounds the wait for libvirt's definition of a domain, and for an active owner. libvirt
	// waits for the hook meanwhile.
	timeout = 1500 * time.Millisecond

	// retryPeriod is the time from a refusal to the next read of the state.
	retryPeriod = 100 * time.Millisecond
)

// Hook answers libvirt. The zero functions are those of this machine.
type Hook struct {
	Config string // path of the configuration

	// State is the path of the agent's state without a readable configuration; empty: [StatePath].
	State string

	Now   func() time.Duration // nil: [Now]
	Alive alive                // nil: by /proc
}

// Call decides about one call by libvirt with these arguments: domain, operation, sub-operation and
// more. stdin has the domain's definition. An error refuses the operation.
//
// Only a beginning prepare or start may fail. libvirt would end a running VM after a refused
// reconnect.
func (h Hook) Call(args []string, stdin io.Reader) error {
	if len(args) < 3 || args[2] != "begin" || args[1] != "prepare" && args[1] != "start" {
		return nil
	}
	name := args[0]
	if name == Probe {
		return h.probe()
	}
	if err := h.decide(name, args[1], stdin); err != nil {
		return fmt.Errorf("the start gate refuses domain %s: %w", name, err)
	}
	return nil
}

// probe refuses the probe with ProbeRefused, or with the reason why the gate cannot work. The agent
// may be away. AppArmor and SELinux may deny the hook its files, because it runs as libvirt does.
func (h Hook) probe() error {
	config, err := ReadConfig(h.Config)
	if err == nil {
		_, err = ReadState(config.State)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("the start gate cannot work: %w", err)
	}
	return errors.New(ProbeRefused)
}

func (h Hook) decide(name, operation string, stdin io.Reader) error {
	deadline := time.Now().Add(timeout)
	config, err := ReadConfig(h.Config)
	if err != nil {
		config = Config{State: cmp.Or(h.State, StatePath)}
	}
	state, err := ReadState(config.State)
	fresh := err == nil && !state.old(h.now())
	switch {
	case err != nil && !matches(config.RequireOwner, name):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the agent's state %s is missing; %s", config.State, startAgent)
	case err != nil:
		return fmt.Errorf("the agent's state is unreadable: %w", err)
	case fresh && matches(state.ObserveOwner, name):
		h.observe(name, operation, stdin, state, config.State, deadline)
		return nil
	case fresh && !matches(state.RequireOwner, name),
		!matches(slices.Concat(state.RequireOwner, config.RequireOwner), name):
		return nil
	}
	return h.requireOwner(name, stdin, state, config.State, deadline)
}

// observe records a start that enforce mode would refuse. A start has both operations, and one
// record. libvirt shows no message of a start that goes on, so a failed record stays unreported.
func (h Hook) observe(
	name, operation string, stdin io.Reader, state State, path string, deadline time.Time,
) {
	if operation != "prepare" {
		return
	}
	if err := h.requireOwner(name, stdin, state, path, deadline); err != nil {
		_ = Refusal{At: h.now(), Domain: name, Reason: err.Error()}.record(
			filepath.Join(filepath.Dir(path), RefusalsName))
	}
}

// requireOwner returns nil if the domain has an active owner.
func (h Hook) requireOwner(
	name string, stdin io.Reader, state State, path string, deadline time.Time,
) error {
	d, err := readInTime(stdin)
	if err == nil && d.name != name {
		err = fmt.Errorf("name %q: want %q", d.name, name)
	}
	if err != nil {
		return fmt.Errorf("libvirt's definition is unreadable: %w", err)
	}
	return h.awaitOwner(d, state, path, deadline)
}

// awaitOwner repeats a refusal until the deadline. A launcher may start its domain at once, and the
// agent learns of the launcher and of its heartbeat a moment later.
func (h Hook) awaitOwner(d definition, state State, path string, deadline time.Time) error {
	for {
		err := state.decide(d, h.now(), h.isAlive())
		if err == nil || !time.Now().Before(deadline) {
			return err
		}
		<-time.After(retryPeriod)
		if next, err := ReadState(path); err == nil {
			state = next
		}
	}
}

// readInTime reads the definition. After the timeout, the read goes on until the program ends.
func readInTime(stdin io.Reader) (d definition, err error) {
	done := make(chan struct{})
	var read definition
	var readErr error
	go func() {
		defer close(done)
		read, readErr = readDefinition(stdin)
	}()
	select {
	case <-done:
		return read, readErr
	case <-time.After(timeout):
		return d, fmt.Errorf("incomplete after %s", timeout)
	}
}

func (h Hook) now() time.Duration {
	if h.Now != nil {
		return h.Now()
	}
	return Now()
}

func (h Hook) isAlive() alive {
	if h.Alive != nil {
		return h.Alive
	}
	return processAlive
}
