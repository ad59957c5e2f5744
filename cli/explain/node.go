package explain

import (
	"io/fs"
	"runtime"
	"strings"
)

// Node holds the facts about a node. The zero value contains no facts.
type Node struct {
	Memory int64 `json:"memoryBytes"` // 0: unknown
	// lockable memory of other launchers in the node's account
	Granted     int64    `json:"grantedBytes"`
	Controllers []string `json:"controllers"` // cgroup controllers; null: unknown
	// as in Kubernetes, such as amd64; the overhead of a launcher depends on it
	Architecture string `json:"architecture,omitempty"`

	// AccountsUnknown is set for an agent without a kubeconfig.
	AccountsUnknown bool `json:"accountsUnknown,omitempty"`
}

// ThisNode returns the facts about this machine. root is its root file system.
func ThisNode(root fs.FS) Node {
	n := Node{Memory: totalMemory(), Architecture: runtime.GOARCH}
	if content, err := fs.ReadFile(root, "sys/fs/cgroup/cgroup.controllers"); err == nil {
		n.Controllers = strings.Fields(string(content))
	}
	return n
}
