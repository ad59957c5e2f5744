// Package decide decides what a launcher gets: its memory lock, its cgroup settings and its domain
// of the node's libvirt. The agent's plugin asks when the runtime creates a container, and when a
// running VM asks for a larger memory lock. `mooring policy explain` asks for the same decision
// without a node.
//
// All functions are pure: they do not block, the same arguments give the same result, and
// several goroutines may call them at once.
package decide
