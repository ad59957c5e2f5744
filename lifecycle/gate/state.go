package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

const (
	// Version is the version of [State] and [Config]. A hook reads no other version.
	Version = 1

	// StateName is the file name of the state in the agent's tmpfs.
	StateName = "gate.json"

	// MaxAge is the greatest age of a state. A restart of the agent takes less.
	MaxAge = 30 * time.Second

	// maxFile bounds the size of a state or configuration, in bytes.
	maxFile = 16 << 20
)

// State is the agent's knowledge for the hook. Times are since the node's boot (CLOCK_BOOTTIME).
type State struct {
	Version int           `json:"version"`
	Written time.Duration `json:"written"`

	// RequireOwner are globs of path.Match for the names of domains that need an owner. It is empty
	// in observe mode. Then ObserveOwner has them, and the hook records what it would refuse.
	RequireOwner []string `json:"requireOwner"`
	ObserveOwner []string `json:"observeOwner,omitempty"`

	Owners []Owner `json:"owners,omitempty"`
}

// Owner is a launcher that declares a domain.
type Owner struct {
	Domain string `json:"domain"` // its name, or its UUID in lower case
	Pod    string `json:"pod"`    // NAMESPACE/NAME

	// Inactive is the reason why the launcher may start no VM; empty: it may.
	Inactive string `json:"inactive,omitempty"`

	// PID and Ticks identify the launcher process: Ticks is its start time as in proc_pid_stat(5).
	PID   int    `json:"pid,omitempty"`
	Ticks uint64 `json:"ticks,omitempty"`

	// HeartbeatUntil is when the last heartbeat expires; 0: the pod promises none.
	HeartbeatUntil time.Duration `json:"heartbeatUntil,omitempty"`
}

// Config is the configuration of an installed hook.
type Config struct {
	Version int    `json:"version"`
	State   string `json:"state"` // path of the agent's state

	// RequireOwner applies while there is no fresh state, for example after the node's boot.
	RequireOwner []string `json:"requireOwner"`
}

// Write replaces the state at path in one step.
func (s State) Write(path string) (err error) {
	s.Version = Version
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// ReadState reads the state at path.
func ReadState(path string) (s State, err error) {
	err = read(path, &s)
	if err == nil {
		err = checkVersion(path, s.Version)
	}
	return s, err
}

// ReadConfig reads the configuration at path.
func ReadConfig(path string) (c Config, err error) {
	err = read(path, &c)
	if err == nil {
		err = checkVersion(path, c.Version)
	}
	return c, err
}

func checkVersion(path string, version int) error {
	if version != Version {
		return fmt.Errorf("%s: version %d: want %d; install the hook again: "+
			"mooring node configure", path, version, Version)
	}
	return nil
}

func read(path string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// matches reports whether one of the globs matches the whole name.
func matches(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		ok, _ := path.Match(glob, name) // the policy has refused malformed globs
		return ok
	})
}
