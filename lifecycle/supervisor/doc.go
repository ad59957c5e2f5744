// Package supervisor runs the ties of a node's launchers. It observes kernel, runtime and libvirt,
// applies the observations to the ties (package tie), and executes the resulting actions.
//
// One goroutine owns all ties. Notifications reach it through a mailbox. Slow calls run in the
// background, and their results come back through the mailbox.
//
//   - mailbox.go, notifications.go, run.go: the mailbox and the loop
//   - events.go, scan.go, scan_result.go, probes.go, scan_schedule.go, resync.go: observation
//   - ties.go, restore.go, absence.go, publish.go, store_linux.go: the ties and their storage
//   - execute.go: actions
//   - domains.go, leases.go, stophandlers.go, poddirs.go, tracking.go, handles.go, arguments.go
package supervisor
