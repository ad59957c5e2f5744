// Package guard refuses what would break the quotas of live migrations: edits of a quota
// while something is reserved in it, and VMs that would take the reserved room.
//
// Its handlers judge single requests and keep nothing. They may be called concurrently and
// from several programs at once. What they judge by they read from the API server, pods
// before quotas, so that no pod is missed that a quota is charged for already.
//
// They never stand in the way because of themselves: where something cannot be read, or
// takes longer than three seconds, the request passes with a warning, and the log says why.
//
// # What they cannot hold
//
// Two launchers that are judged at the same moment do not see each other. Kubernetes then
// refuses the second one only if status.hard is full; what both took may be reserved.
// The controller looks a second time.
//
// That a request comes from the API server is not checked. Nothing is written by what a
// request alone says: what a migration's target pod is charged is noted if migration and VM
// are in the cluster, and it is not far more than the VM is likely to need.
//
// A VM is judged by an estimate of its launcher. The launcher itself is judged when it is
// made, and by what it is charged.
package guard
