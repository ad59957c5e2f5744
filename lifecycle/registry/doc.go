// Package registry holds the launchers of the node and the account of lockable memory.
package registry
