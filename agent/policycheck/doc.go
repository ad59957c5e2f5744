// Package policycheck says what is wrong with a node policy, and what of a valid
// one is surely not meant. `mooring policy check` and `mooring-agent check` share it.
//
// Its functions may be called from several goroutines at once; none but Read blocks.
package policycheck
