package agent

import (
	"os"
	"path/filepath"
	"time"
)

const (
	// fenceAliveFile is a file in the agent's tmpfs. A fence touches it at each check, also while
	// it has nothing to do. It is for metrics only, and no part of the handshake.
	fenceAliveFile = "fence.alive"

	// fenceAwayAfter is the age of fenceAliveFile at which the agent reports the fence as away.
	fenceAwayAfter = time.Minute
)

// fenceUp reports whether a fence runs. known is false if none has run since the node booted. A
// node without a fence is not a fault.
func fenceUp(root string) (up, known bool) {
	info, err := os.Stat(filepath.Join(root, fenceAliveFile))
	if err != nil {
		return false, false
	}
	return time.Since(info.ModTime()) < fenceAwayAfter, true
}
