// Package cli is the command line tool: it asks the agent of this node what
// launchers asked for and what they got. It changes nothing.
package cli
