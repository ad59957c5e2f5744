// Package explain predicts a node's treatment of a pod: which container runs a VM and why, which
// rule of the node policy decides, which settings the agent applies or refuses, and the resulting
// contents of kernel files. [decide.Container] makes the decision, as in the agent. This package
// gathers the facts and explains the result.
//
// Only [ThisNode] reads the machine. Several goroutines may call all functions at once.
package explain
