package explain

import (
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// Node is what a decision depends on, next to the pod and the policy. The zero
// value knows nothing of the node.
type Node struct {
	Memory      int64    `json:"memoryBytes"`  // 0: not known
	Granted     int64    `json:"grantedBytes"` // lockable memory that other launchers were granted
	Controllers []string `json:"controllers"`  // cgroup controllers; null: not known

	// AccountsUnknown is set for an agent without a kubeconfig.
	AccountsUnknown bool `json:"accountsUnknown,omitempty"`
}

// ThisNode returns what is known of the machine that it is called on. root is its
// root file system.
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
