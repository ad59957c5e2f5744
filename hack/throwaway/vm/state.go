package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mooring-vm/mooring/hack/throwaway/channel"
)

const stateFile = "node.json"

// State contains the data by which another process reaches a running node.
type State struct {
	Address     string `json:"address"`
	HostKey     string `json:"hostKey"`
	Accelerator string `json:"accelerator"`
	// The end of Owner ends the node. QEMU is the node's QEMU.
	Owner Process `json:"ownerProcess"`
	QEMU  Process `json:"qemuProcess"`
}

// Save writes the state into the node's directory in one step.
func (v *VM) Save() error {
	owner, err := NewProcess(os.Getpid())
	if err != nil {
		return fmt.Errorf("saving the node's state: %w", err)
	}
	qemu, err := NewProcess(v.Pid())
	if err != nil {
		return fmt.Errorf("saving the node's state: %w", err)
	}
	b, err := json.MarshalIndent(State{
		Address: v.Target.Address, HostKey: v.Target.HostKey, Accelerator: v.Accelerator.String(),
		Owner: owner, QEMU: qemu,
	}, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(v.Dir, stateFile)
	if err := os.WriteFile(path+".tmp", b, 0o600); err != nil {
		return fmt.Errorf("saving the node's state: %w", err)
	}
	return os.Rename(path+".tmp", path)
}

// Forget removes the file of Save.
func (v *VM) Forget() error {
	if err := os.Remove(filepath.Join(v.Dir, stateFile)); err != nil &&
		!errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Load reads the state of a node from its directory.
func Load(dir string) (State, channel.Target, error) {
	var s State
	b, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return s, channel.Target{}, fmt.Errorf("reading the node's state: %w", err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, channel.Target{}, fmt.Errorf("reading the node's state in %s: %w", dir, err)
	}
	key, err := channel.LoadKey(filepath.Join(dir, keyFile))
	if err != nil {
		return s, channel.Target{}, err
	}
	return s, channel.Target{Address: s.Address, HostKey: s.HostKey, Key: key}, nil
}
