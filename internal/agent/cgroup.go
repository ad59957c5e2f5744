package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// cgroupControllers lists the controllers that the cgroup v2 hierarchy mounted at
// root has. Containers can have no others.
func cgroupControllers(root string) ([]string, error) {
	content, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return nil, fmt.Errorf("list the cgroup controllers: %w", err)
	}
	return strings.Fields(string(content)), nil
}
