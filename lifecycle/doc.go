// Package lifecycle is the map of the packages below it. Each imports only packages above its own
// line:
//
//   - host: processes, pidfd handles, cgroups, resource limits and boot time of this node
//   - tie: the pure state machine of one launcher and its VM processes
//   - registry: the launchers of the node and their memory-lock account
//   - guard: compares the launchers' limits with the kernel and repairs them
//   - poddir: the directories that pods share with the agent
//   - supervisor: runs the ties: mailbox, scanner, executor, store
//
// No package here knows NRI, eBPF or libvirt: effects are behind small interfaces, declared by the
// package that uses them. Package lifecycletest has a fake for each and the conformance suites that
// fakes and real implementations share.
package lifecycle
