// Package api is the contract between Mooring and its users: the pod annotations and the meaning of
// their values.
//
// A launcher pod asks for limits and behaviour in annotations, and the node's policy (package
// api/policy) decides. Reading is strict. An unknown key under Mooring's suffix, a malformed
// quantity, a negative number and an overflow are errors. They name the key, the value and the
// allowed values. A mistyped limit would otherwise show only when the VM fails.
//
// Authors of admission webhooks need only [AddLockable]. Other users start at [Launcher] and
// [Parse].
//
// All functions are pure and do not block. Several goroutines may call them at once with the same
// map, as long as the map does not change.
package api
