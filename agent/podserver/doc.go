// Package podserver serves the pods of a node on the sockets in their directories. It shows the
// kernel's state of the pod and the desired state of its VM, and changes the memory lock within the
// node's policy.
//
// The package trusts no pod. Each pod has a listener of its own, so a flood hurts only its sender:
// few connections, a bounded rate, bounded requests with time-outs. Package podapi checks the
// requests, and the node's policy decides about them. A request cannot name another pod, a process
// or a file.
package podserver
