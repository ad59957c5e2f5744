// Package agent puts the parts of the agent together: it makes them from the
// command line, runs them, and stops them in an order in which nothing is lost.
package agent
