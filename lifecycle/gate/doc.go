// Package gate is the start gate: a hook of the node's libvirt that refuses the start of a domain
// without an active owner.
//
// The agent writes a [State], the hook reads it and decides. The hook never calls the agent, and
// never libvirt: libvirt waits for the hook, so a call back would deadlock. The package imports
// little, because launchers mount the program that contains it.
package gate
