package suite

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

// Runtime handlers whose containers have RLIMIT_MEMLOCK in their spec before any
// plugin is asked.
//
//go:embed testdata/memlock-runtimes.toml
var memlockRuntimes string

const (
	memlockRuntimesFile = "/etc/containerd/conf.d/suite-memlock.toml"
	memlockSpecFile     = "/etc/containerd/suite-memlock.json" // also in the TOML
	specMemlock         = 4 * gib
)

// addMemlockRuntimes adds the handlers, until the returned function is called.
func (f fixture) addMemlockRuntimes(t *testing.T) (remove func()) {
	t.Helper()
	if err := f.PushFrom(t.Context(), bytes.NewReader(f.specWithMemlock(t)), memlockSpecFile, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := f.PushFrom(t.Context(), strings.NewReader(memlockRuntimes), memlockRuntimesFile, 0o644); err != nil {
		t.Fatal(err)
	}
	f.restartContainerd(t)
	return func() {
		t.Helper()
		f.output(t, "rm", memlockSpecFile, memlockRuntimesFile)
		f.restartContainerd(t)
	}
}

// specWithMemlock is containerd's default spec with a memory lock.
func (f fixture) specWithMemlock(t *testing.T) []byte {
	t.Helper()
	var spec map[string]any
	if err := json.Unmarshal([]byte(f.output(t, "ctr", "oci", "spec")), &spec); err != nil {
		t.Fatal(err)
	}
	process, ok := spec["process"].(map[string]any)
	if !ok {
		t.Fatalf("containerd's default spec has no process: %v", spec)
	}
	process["rlimits"] = []any{map[string]any{"type": "RLIMIT_MEMLOCK", "soft": specMemlock, "hard": specMemlock}}
	b, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLimitInTheSpec: what is high enough is left alone, what is lower is raised.
// NRI adds the rlimit to the spec beside the one that is there, although the
// runtime specification forbids that; runtimes set both, ours last.
func TestLimitInTheSpec(t *testing.T) {
	f := setUp(t)
	defer f.addMemlockRuntimes(t)()
	t.Run("plain pod", func(t *testing.T) { // the handler does what it is for
		p := plain()
		p.Handler = "runc-memlock"
		if got := f.memlock(t, f.run(t, p, cri.Container{MemoryLimit: gib})); got != both(specMemlock) {
			t.Errorf("the kernel has %s, want %s", got, both(specMemlock))
		}
	})
	for name, test := range map[string]struct {
		handler, value string
		want           int64
		status         agentapi.Status
	}{
		"higher than asked":         {"runc-memlock", "1Gi", specMemlock, agentapi.StatusYielded},
		"equal":                     {"runc-memlock", "3Gi", specMemlock, agentapi.StatusYielded},
		"lower than asked":          {"runc-memlock", "7Gi", 8 * gib, agentapi.StatusApplied},
		"higher than asked in crun": {"crun-memlock", "1Gi", specMemlock, agentapi.StatusYielded},
		"lower than asked in crun":  {"crun-memlock", "7Gi", 8 * gib, agentapi.StatusApplied},
	} {
		t.Run(name, func(t *testing.T) {
			p := launcher(map[string]string{api.RequiresLockKey: "true", api.ValueKey: test.value})
			p.Handler = test.handler
			i := f.run(t, p, cri.Container{MemoryLimit: gib})
			if got := f.memlock(t, i); got != both(test.want) {
				t.Errorf("the kernel has %s, want %s", got, both(test.want))
			}
			f.awaitSetting(t, p, agentapi.MemlockSetting, test.status)
			if test.status == agentapi.StatusYielded {
				f.awaitEvent(t, p, agentapi.ReasonLimitYielded)
			}
		})
	}
}
