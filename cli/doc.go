// Package cli is the command line tool mooring. It asks the agent of this node, or a cluster, about
// launchers, their settings and their VM processes, computes memory locks, checks policies,
// requests resizes, and uninstalls.
package cli
