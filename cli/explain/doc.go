// Package explain says what a node would do with a pod: which of its containers
// runs a VM and why, which rule of the node policy decides, what would be set or
// refused, and what the kernel would show. The decision is the plugin's own,
// [decide.Container]; this package gathers what it depends on, and tells of it.
//
// Nothing of it but [ThisNode] reads the machine; all functions may be called from
// several goroutines at once.
package explain
