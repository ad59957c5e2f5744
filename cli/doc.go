// Package cli is the command line tool: it asks the agent of this node what
// launchers asked for, what they got, and how their VM processes fare. It changes
// nothing but leases.
package cli
