// Package shim holds what runs inside a pod, beside a VM: [heartbeat] and [prestop]
// talk to the node's agent through the pod's directory at /run/mooring. They need no
// privilege, no connection and no agent that is there at the moment.
//
// Programs import the packages; other images have the same as the program
// /run/mooring/hook (cmd/mooring-hook).
//
// [heartbeat]: https://pkg.go.dev/github.com/mooring-vm/mooring/shim/heartbeat
// [prestop]: https://pkg.go.dev/github.com/mooring-vm/mooring/shim/prestop
package shim
