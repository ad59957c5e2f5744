// Package channel is the command channel of a throw-away node: SSH over a forwarded loopback port.
// SSH brings streams, exit codes, signals and concurrent calls, and an ordinary ssh client works,
// too. Each boot has new keys.
package channel
