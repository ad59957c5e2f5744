// Package agent is the agent program of a node, and the fence. It makes the agent's parts
// from the command line, runs them, and stops them in an order that loses no event.
package agent
