//go:build !linux

package explain

// totalMemory returns 0, for unknown: this machine is no node.
func totalMemory() int64 { return 0 }
