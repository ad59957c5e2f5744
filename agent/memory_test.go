package agent

import (
	"os"
	"path/filepath"
	"testing"
)

func TestNodeMemory(t *testing.T) {
	for name, test := range map[string]struct {
		content string
		want    int64 // 0 for an error
	}{
		"as Linux has it": {"MemTotal:       16315252 kB\nMemFree:         1000 kB\n",
			16315252 << 10},
		"not first": {"MemFree: 1 kB\nMemTotal: 2 kB\n", 2048},
		"empty":     {"", 0},
		"no number": {"MemTotal: many kB\n", 0},
		"too large": {"MemTotal: 9223372036854775807 kB\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			proc := t.TempDir()
			if err := os.WriteFile(filepath.Join(proc, "meminfo"), []byte(test.content),
				0o600); err != nil {
				t.Fatal(err)
			}
			got, err := nodeMemory(proc)
			if got != test.want || (err != nil) != (test.want == 0) {
				t.Errorf("nodeMemory = %d, %v, want %d", got, err, test.want)
			}
		})
	}
	if got, err := nodeMemory("/proc"); err != nil || got < 1<<20 {
		t.Errorf("memory of this machine = %d, %v", got, err)
	}
}
