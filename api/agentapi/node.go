package agentapi

import (
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
)

// NRIState is how far the agent's connection to the container runtime is.
type NRIState string

// The states of the connection, in their order.
const (
	NRIDisconnected NRIState = "Disconnected"
	NRIConnected    NRIState = "Connected"    // registered and configured
	NRISynchronized NRIState = "Synchronized" // knows the containers of the node
)

// Node is the agent itself and what it is connected to.
type Node struct {
	Version string  `json:"version"` // of the agent
	Mode    string  `json:"mode"`    // of the policy: observe or enforce
	Policy  string  `json:"policy"`  // path of the policy file
	NRI     NRI     `json:"nri"`
	Runtime Runtime `json:"runtime"`
	Memlock Account `json:"memlock"`
	Tracker Tracker `json:"tracker"`

	Headroom podapi.Headroom `json:"headroom,omitzero"` // that the policy gives VMs; 0: what it does not say
}

// NRI is the connection to the container runtime.
type NRI struct {
	State NRIState  `json:"state"`
	Since time.Time `json:"since"`           // when State was entered
	Error string    `json:"error,omitempty"` // of the last attempt, while not synchronised
}

// Runtime is the container runtime as it introduced itself; empty before the
// first connection.
type Runtime struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
}

// Account is the lockable memory granted on the node, in bytes.
type Account struct {
	Granted   int64 `json:"granted"`       // sum over launchers with a finite limit
	Unlimited int   `json:"unlimited"`     // launchers without a limit
	Max       int64 `json:"max,omitempty"` // the policy's ceiling for Granted; 0: none
}

// Tracker is what follows the processes of launchers, and the start of every
// emulator, inside the kernel. Without it the agent sets limits, and does nothing
// to VM processes.
type Tracker struct {
	Available bool   `json:"available"`
	Error     string `json:"error,omitempty"` // why it is not

	Processes    int `json:"processes,omitempty"` // followed now
	MaxProcesses int `json:"maxProcesses,omitempty"`
	Groups       int `json:"groups,omitempty"` // registered cgroups
	MaxGroups    int `json:"maxGroups,omitempty"`

	// Counted since the tracker was loaded, which outlives the agent.
	LostEvents    uint64 `json:"lostEvents,omitempty"`    // that nobody was told of; what they were about is looked for
	LostProcesses uint64 `json:"lostProcesses,omitempty"` // that there was no room for
	Stale         uint64 `json:"stale,omitempty"`         // whose end was missed
	Skipped       uint64 `json:"leftOut,omitempty"`       // calls that the kernel left out; what they were about is looked for
}
