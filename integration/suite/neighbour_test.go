package suite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

const (
	neighbourBinary = "/usr/local/bin/suite-neighbour"
	ulimitAdjuster  = "ulimits.noderesource.dev/container.compute"
	unknownPlugin   = "ulimits.neighbour.example/container.compute"
)

// pushNeighbour builds integration/neighbour and copies it to the node.
func (f fixture) pushNeighbour(t *testing.T) {
	t.Helper()
	f.pushProgram(t, "../neighbour", neighbourBinary)
}

// pushProgram builds a program of this module, and copies it to the node.
func (f fixture) pushProgram(t *testing.T, source, to string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), filepath.Base(to))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", source, err, out)
	}
	if err := f.Push(t.Context(), binary, to, 0o755); err != nil {
		t.Fatal(err)
	}
}

// startNeighbour starts the plugin. The returned function stops it.
func (f fixture) startNeighbour(t *testing.T, index string) (stop func()) {
	t.Helper()
	name := "neighbour-" + uuid.NewString()[:8]
	f.output(t, "systemd-run", "--quiet", "--unit="+name, neighbourBinary, "-name="+name,
		"-index="+index)
	eventually(t, "containerd to connect the neighbour", func() bool {
		_, err := f.Output(t.Context(), "journalctl", "-u", "containerd", "--no-pager",
			"--grep="+name+".* connected and synchronized")
		return err == nil
	}, func() string { return f.output(t, "systemctl", "status", "--no-pager", name) })
	return func() {
		t.Helper()
		f.output(t, "systemctl", "stop", name)
	}
}

// If another plugin runs before Mooring and sets a sufficient limit, Mooring keeps this limit.
// In all other cases containerd refuses the container. If Mooring knows the other plugin, it
// refuses first, with a reason.
func TestNeighbourSetsTheSameLimit(t *testing.T) {
	f := setUp(t)
	f.pushNeighbour(t)
	for name, test := range map[string]struct {
		index, annotation string
		limit             int64
		refusal           []string // empty: the launcher runs with the limit
	}{
		"before Mooring, enough": {"10", unknownPlugin, 4 * gib, nil},
		"before Mooring, too little": {"10", unknownPlugin, 1 * gib,
			[]string{"both tried to set", "RLIMIT_MEMLOCK"}},
		"after Mooring": {"95", unknownPlugin, 4 * gib,
			[]string{"both tried to set", "RLIMIT_MEMLOCK"}},
		"known, before Mooring, enough": {"10", ulimitAdjuster, 4 * gib, nil},
		"known, before Mooring, too little": {"10", ulimitAdjuster, 1 * gib,
			[]string{"mooring refuses", ulimitAdjuster, "remove memlock from"}},
		"known, after Mooring": {"95", ulimitAdjuster, 4 * gib,
			[]string{"mooring refuses", ulimitAdjuster, "remove memlock from"}},
	} {
		t.Run(name, func(t *testing.T) {
			defer f.startNeighbour(t, test.index)()
			p := launcher(map[string]string{
				api.RequiresLockKey: "true", api.ValueKey: "1Gi",
				test.annotation: fmt.Sprintf("[{type: memlock, soft: %d, hard: %[1]d}]",
					test.limit),
			})
			if len(test.refusal) == 0 {
				f.checkYield(t, p, test.limit)
				return
			}
			msg := f.refused(t, p, cri.Container{MemoryLimit: gib})
			for _, want := range test.refusal {
				if !strings.Contains(msg, want) {
					t.Errorf("the message lacks %q: %s", want, msg)
				}
			}
		})
	}
}

func (f fixture) checkYield(t *testing.T, p cri.Pod, limit int64) {
	t.Helper()
	i := f.run(t, p, cri.Container{MemoryLimit: gib})
	if got := f.memlock(t, i); got != both(limit) {
		t.Errorf("the kernel has %s, want the neighbour's %s", got, both(limit))
	}
	f.awaitSetting(t, p, agentapi.MemlockSetting, agentapi.StatusYielded)
}
