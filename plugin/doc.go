// Package plugin is the NRI side of the agent: it recognises launcher containers,
// decides what they get, answers the container runtime in microseconds, and keeps
// the connection to it.
//
// Everything that takes time happens elsewhere: handlers translate between NRI and
// package lifecycle and make a few system calls on a tmpfs. They hold up every
// container on the node, one after the other.
package plugin
