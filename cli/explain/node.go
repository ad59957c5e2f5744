package explain

import (
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// Node holds the facts about a node. The zero value contains no facts.
type Node struct {
	Memory int64 `json:"memoryBytes"` // 0: unknown
	// lockable memory of other launchers in the node's account
	Granted     int64    `json:"grantedBytes"`
	Controllers []string `json:"controllers"` // cgroup controllers; null: unknown

	// AccountsUnknown is set for an agent without a kubeconfig.
	AccountsUnknown bool `json:"accountsUnknown,omitempty"`
}

// ThisNode returns the facts about this machine. root is its root file system.
func ThisNode(root fs.FS) Node {
	var n Node
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		n.Memory = int64(info.Totalram) * int64(info.Unit) // MemTotal of proc_meminfo(5)
	}
	if content, err := fs.ReadFile(root, "sys/fs/cgroup/cgroup.controllers"); err == nil {
		n.Controllers = strings.Fields(string(content))
	}
	return n
}
