// Package podserver answers pods on the sockets in their directories: what the kernel
// shows of them, a memory lock within the node's policy, and what their VM is to become.
//
// A pod is not trusted. Each has a listener of its own, so that a flood by one is its own
// trouble: a few connections, a bounded rate, bounded requests with time-outs. What a pod
// sends is checked by package podapi, and what it may have is decided by the node's
// policy; nothing that it sends names another pod, a process or a file.
package podserver
