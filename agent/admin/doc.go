// Package admin is the agent's own socket: HTTP over a unix socket that only
// root may open, as package agentapi describes it. [Listen] and [Server] are the
// agent's side, [Client] is that of the command line tool. Leases are all that can
// be changed.
package admin
