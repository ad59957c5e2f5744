package agentapi

import (
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
)

// NRIState is the state of the agent's connection to the container runtime.
type NRIState string

// The states of the connection, in their order.
const (
	NRIDisconnected NRIState = "Disconnected"
	NRIConnected    NRIState = "Connected"    // registered and configured
	NRISynchronized NRIState = "Synchronized" // the agent knows the containers of the node
)

// Node is the agent's own state and the state of its connections.
type Node struct {
	Version string  `json:"version"` // of the agent
	Mode    string  `json:"mode"`    // of the policy: observe or enforce
	Policy  string  `json:"policy"`  // path of the policy file
	NRI     NRI     `json:"nri"`
	Runtime Runtime `json:"runtime"`
	Memlock Account `json:"memlock"`
	Tracker Tracker `json:"tracker"`

	// from the policy; 0: the policy does not set it
	Headroom podapi.Headroom `json:"headroom,omitzero"`

	// InPod reports that the agent is a pod of the cluster, not a unit of the node.
	InPod bool `json:"inPod,omitempty"`
}

// NRI is the connection to the container runtime.
type NRI struct {
	State NRIState  `json:"state"`
	Since time.Time `json:"since"`           // start of State
	Error string    `json:"error,omitempty"` // of the latest attempt, while not synchronised
}

// Runtime is the container runtime by its own introduction; empty before the first connection.
type Runtime struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
}

// Account is the memory that launchers of the node can lock, in bytes.
type Account struct {
	Granted   int64 `json:"granted"`       // sum over launchers with a memory lock
	Unlimited int   `json:"unlimited"`     // launchers with an unlimited memory lock
	Max       int64 `json:"max,omitempty"` // the policy's ceiling for Granted; 0: none

	// Unbounded counts launchers that no memory limit bounds. Their processes together may lock
	// more than Granted has for them.
	Unbounded int `json:"unbounded,omitempty"`
}

// Tracker is the part of the agent in the kernel. It tracks the processes of launchers and the
// start of every emulator. Without it the agent sets limits and stops no VM processes.
type Tracker struct {
	Available bool   `json:"available"`
	Error     string `json:"error,omitempty"` // why the tracker is not available

	Processes    int `json:"processes,omitempty"` // tracked now
	MaxProcesses int `json:"maxProcesses,omitempty"`
	Groups       int `json:"groups,omitempty"` // registered cgroups
	MaxGroups    int `json:"maxGroups,omitempty"`

	// Counters since the load of the tracker, which outlives the agent. events that the agent did
	// not get; it scans for their effects
	LostEvents    uint64 `json:"lostEvents,omitempty"`
	LostProcesses uint64 `json:"lostProcesses,omitempty"` // processes without space in the table
	// processes with an end that the tracker missed
	Stale uint64 `json:"stale,omitempty"`
	// calls that the kernel skipped; the agent scans for their effects
	Skipped uint64 `json:"leftOut,omitempty"`
}
