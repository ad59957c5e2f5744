// Package shim holds the parts that run inside a pod, beside its VM. [heartbeat] and [prestop]
// talk to the node's agent through files in the pod's directory, /run/mooring/pod. They need no
// privilege and no connection, and work while the agent is away.
//
// Go programs import the packages. Other images run the same code as the program
// /run/mooring/hook (cmd/mooring-hook).
//
// [heartbeat]: https://pkg.go.dev/github.com/mooring-vm/mooring/shim/heartbeat [prestop]:
// https://pkg.go.dev/github.com/mooring-vm/mooring/shim/prestop
package shim
