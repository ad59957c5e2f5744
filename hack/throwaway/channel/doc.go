// Package channel is the way into a throw-away node: SSH over a forwarded
// loopback port, so that streams, exit codes, signals and several calls at
// once come from a protocol that is known, and an ordinary ssh client works
// too. The keys are made for each boot.
package channel
