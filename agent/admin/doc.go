// Package admin is the agent's own API: HTTP over a unix socket for root only, as package
// agentapi describes it. [Listen] and [Server] are the agent's side, [Client] is the side of
// the command-line tool. A client can read state and events, change leases and request VM
// sizes.
package admin
