// Package guard refuses requests that would break the quotas of live migrations: edits of a quota
// with reservations, and VMs that would use reserved quota.
//
// Its handlers check single requests and keep no state. They may be called concurrently and from
// several programs. They read from the API server, pods before quotas, so they see every pod that a
// quota charges.
//
// The guard never blocks because of its own failure. If an object is unreadable or a check takes
// longer than three seconds, the request passes with a warning, and the log has the reason.
//
// # Limits
//
// Two launchers checked at the same moment do not see each other. Kubernetes then refuses the
// second one only if status.hard is full, so both together may use reserved quota. The controller's
// second check halts one of the VMs.
//
// The guard cannot verify that a request comes from the API server. So no write relies on a request
// alone: the guard records a target pod's charge only if migration and VM exist and the charge is
// plausible for the VM.
//
// The guard checks a VM by an estimate of its launcher. It checks the launcher itself at its
// creation, by its real charge.
package guard
