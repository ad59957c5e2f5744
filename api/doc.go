// Package api is the contract between Mooring and the people who use it: the
// pod annotations, what their values mean, and how they are read.
//
// A launcher pod asks for things in annotations; a node's policy (package
// api/policy) decides what it gets. Reading is strict: an unknown key under our
// suffix, a malformed quantity, a negative number, an overflow are errors that
// name the key, the value and what is allowed. Nothing is guessed, because a
// mistyped limit that is silently ignored is found only when the VM fails.
//
// Authors of admission webhooks need [AddLockable] alone. Everybody else starts
// at [Launcher] and [Parse].
//
// All functions are pure, do not block, and may be called from several
// goroutines at once as long as nobody writes to the map they are given.
package api
