// Package vmfile is the file in which the agent publishes the state of a pod's VM in the node's
// libvirt. mooring-hook reads it, so the package imports little.
package vmfile

import (
	"encoding/json"
	"fmt"
)

// Version is the version of layout and meaning of the file. A new field that an older launcher may
// ignore needs no new version.
//
//	0 (earlier agents): no version, otherwise as 1
const Version = 1

// Name is the name of the file in the pod's directory, and Path its path in the launcher. The
// agent replaces the file by a rename.
const (
	Name = "vm.json"
	Path = "/run/mooring/" + Name
)

// State is the state of the VM of the pod's present launcher.
type State string

// The states of a VM.
const (
	Absent  State = "absent"  // the launcher has had no VM
	Running State = "running" // a VM process runs the domain
	Ending  State = "ending"  // the VM process has ended, and the agent asks libvirt for the reason
	Ended   State = "ended"
)

// Reason is the reason for the end of a VM. Most are libvirt's reasons for an inactive domain.
type Reason string

// The reasons.
const (
	Shutdown   Reason = "shutdown"   // the guest has powered off
	Destroyed  Reason = "destroyed"  // a client of libvirt has ended it
	Crashed    Reason = "crashed"    // the guest has crashed, or the emulator
	Migrated   Reason = "migrated"   // it runs on another node
	Saved      Reason = "saved"      // its state is in a file
	Terminated Reason = "terminated" // Mooring has sent SIGTERM or SIGKILL
	Unknown    Reason = "unknown"    // libvirt has given no reason in time
)

// Orderly reports whether the VM needs no attention: the guest has powered off, or has moved to
// another node.
func (r Reason) Orderly() bool { return r == Shutdown || r == Migrated }

// VM is the content of the file.
type VM struct {
	State  State  `json:"state"`
	Domain string `json:"domain,omitempty"` // libvirt's name

	// PID of the VM process on the node, and its start in clock ticks after the node's boot.
	PID   int    `json:"pid,omitempty"`
	Start uint64 `json:"start,omitempty"`

	Reason Reason `json:"reason,omitempty"` // only with the state Ended
}

// versioned is the content of the file with its version.
type versioned struct {
	Version int `json:"version"`
	VM
}

// Encode returns the content of the file in the present version.
func Encode(vm VM) ([]byte, error) { return json.Marshal(versioned{Version, vm}) }

// Decode reads the content of a file of this version or of an earlier one. The program in the
// launcher may be older than the agent: a later version is an error.
func Decode(data []byte) (VM, error) {
	var file versioned
	if err := json.Unmarshal(data, &file); err != nil {
		return VM{}, err
	}
	if file.Version < 0 || file.Version > Version {
		return VM{}, fmt.Errorf("version %d of the file is unknown: this program reads 0 to %d; "+
			"create the pod again for the program of the present agent", file.Version, Version)
	}
	return file.VM, nil
}
