package suite

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/integration/cri"
	"github.com/mooring-vm/mooring/integration/node"
)

func TestContainersRun(t *testing.T) {
	n := node.Start(t)
	c, err := cri.Connect(n)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.RunPod(t.Context(), cri.Pod{Namespace: "vms", Name: "a", UID: "11111111-1111-1111-1111-111111111111"})
	if err != nil {
		t.Fatal(err)
	}
	i, err := s.Run(t.Context(), cri.Container{Name: "compute", MemoryLimit: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	out, err := i.Exec(t.Context(), "cat", "/proc/self/limits", "/proc/self/cgroup")
	t.Log(out, err)
	if !strings.Contains(out, "Max locked memory") {
		t.Error("no")
	}
	pid, err := i.Pid(t.Context())
	t.Log(pid, err)
	l, err := n.Output(t.Context(), "cat", "/sys/kernel/security/lsm")
	t.Log(l, err)
	if err := s.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}
