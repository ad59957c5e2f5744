package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// nodeMemory returns the node's memory in bytes: MemTotal of proc_meminfo(5).
func nodeMemory(proc string) (int64, error) {
	content, err := os.ReadFile(filepath.Join(proc, "meminfo"))
	if err != nil {
		return 0, fmt.Errorf("memory of the node: %w", err)
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != "MemTotal:" || fields[2] != "kB" {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 54)
		if err != nil {
			return 0, fmt.Errorf("memory of the node: %w", err)
		}
		return kib << 10, nil
	}
	return 0, fmt.Errorf("memory of the node: no MemTotal in %.80q", content)
}
