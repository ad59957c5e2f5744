// Package policycheck reports the faults of a node policy, and warns about probable mistakes in
// valid settings. `mooring policy check` and `mooring-agent check` share it.
//
// Its functions may be called from several goroutines at once. None but Read blocks.
package policycheck
