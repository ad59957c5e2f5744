// Package plugin is the NRI side of the agent. It translates between NRI, the decisions of package
// decide and the registry of launchers, and keeps the connection to the container runtime.
//
// A handler delays every container of the node, one after the other. It therefore takes
// microseconds: it calculates, and makes a few system calls on a tmpfs. Slower work runs elsewhere.
package plugin
