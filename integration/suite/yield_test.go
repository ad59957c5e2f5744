package suite

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

// memlockRuntimes is the end of a configuration of containerd 2.x. It defines runtime handlers
// that put RLIMIT_MEMLOCK into the container's spec before any plugin runs.
//
//go:embed testdata/memlock-runtimes.toml
var memlockRuntimes string

const (
	containerdConfig = "/etc/containerd/config.toml"
	memlockSpecFile  = "/etc/containerd/suite-memlock.json" // also in the TOML
	specMemlock      = 4 * gib
)

// addMemlockRuntimes adds the handlers. The returned function removes them.
func (f fixture) addMemlockRuntimes(t *testing.T) (remove func()) {
	t.Helper()
	if err := f.PushFrom(t.Context(), bytes.NewReader(f.specWithMemlock(t)), memlockSpecFile,
		0o644); err != nil {
		t.Fatal(err)
	}
	more := memlockRuntimes
	if !atLeast(t, f.runtime(t).version, "2.0") {
		more = strings.ReplaceAll(more, "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")
	}
	before := f.output(t, "cat", containerdConfig)
	f.configureContainerd(t, before+"\n\n"+more)
	return func() {
		t.Helper()
		f.configureContainerd(t, before)
		f.output(t, "rm", memlockSpecFile)
	}
}

func (f fixture) configureContainerd(t *testing.T, config string) {
	t.Helper()
	if err := f.PushFrom(t.Context(), strings.NewReader(config), containerdConfig,
		0o644); err != nil {
		t.Fatal(err)
	}
	f.restartContainerd(t)
}

// specWithMemlock returns the default spec of the node's containerd with a memory-lock limit.
func (f fixture) specWithMemlock(t *testing.T) []byte {
	t.Helper()
	var spec specs.Spec
	if err := json.Unmarshal([]byte(f.output(t, "ctr", "oci", "spec")), &spec); err != nil {
		t.Fatal(err)
	}
	if spec.Process == nil {
		t.Fatalf("containerd's default spec has no process: %v", spec)
	}
	limit := uint64(specMemlock)
	spec.Process.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_MEMLOCK", Soft: limit, Hard: limit}}
	b, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The agent keeps a sufficient limit of the spec and raises a lower one. NRI appends its rlimit
// to the spec's, although the runtime specification forbids two of a type. Runtimes set both,
// the plugin's last.
func TestCoreLimitInTheSpec(t *testing.T) {
	claim(t, "A memory lock from the runtime's configuration: raised if too low, else kept")
	f := setUp(t)
	if name := f.runtime(t).name; name != "containerd" {
		t.Skipf("the limit comes from a base_runtime_spec, which %s has not", name)
	}
	tells := f.runtime(t).features(t).passesRlimits
	if !tells {
		outcome(t, "replaced in both cases: the runtime hides it from plugins")
	}
	defer f.addMemlockRuntimes(t)()
	for _, h := range handlers() {
		handler := h + "-memlock"
		t.Run(h+", plain pod", func(t *testing.T) { // checks the handler itself
			p := plain()
			p.Handler = handler
			if got := f.memlock(t, f.run(t, p, cri.Container{MemoryLimit: gib})); got !=
				both(specMemlock) {
				t.Errorf("the kernel has %s, want %s", got, both(specMemlock))
			}
		})
		for name, test := range map[string]struct {
			value string
			asked int64
			yield bool
		}{
			"higher than asked": {"1Gi", 2 * gib, tells},
			"equal":             {"3Gi", specMemlock, tells},
			"lower than asked":  {"7Gi", 8 * gib, false},
		} {
			t.Run(h+", "+name, func(t *testing.T) {
				p := launcher(map[string]string{api.RequiresLockKey: "true",
					api.ValueKey: test.value})
				p.Handler = handler
				if test.yield {
					f.checkYield(t, p, specMemlock)
					f.awaitEvent(t, p, agentapi.ReasonLimitYielded)
					return
				}
				if got := f.memlock(t, f.run(t, p, cri.Container{MemoryLimit: gib})); got !=
					both(test.asked) {
					t.Errorf("the kernel has %s, want %s", got, both(test.asked))
				}
				f.awaitSetting(t, p, agentapi.MemlockSetting, agentapi.StatusApplied)
			})
		}
	}
}

// TestCoreMemlockOfTheRuntime gives containerd an unlimited lock, as LimitMEMLOCK=infinity in its
// unit does. Containers inherit it. An estimate does not lower it, and a rule's maximum does.
func TestCoreMemlockOfTheRuntime(t *testing.T) {
	claim(t, "A higher memory lock of the runtime: kept if the rule allows it, else lowered")
	f := setUp(t)
	if name := f.runtime(t).name; name != "containerd" {
		t.Skipf("%s is no one process that passes its limit on", name)
	}
	pid := "--pid=" + f.output(t, "systemctl", "show", "--property=MainPID", "--value",
		"containerd.service")
	before := strings.Fields(f.output(t, "prlimit", "--memlock", "--output=SOFT,HARD",
		"--noheadings", "--raw", pid))
	f.output(t, "prlimit", pid, "--memlock=unlimited")
	defer f.output(t, "prlimit", pid, "--memlock="+strings.Join(before, ":"))
	request := map[string]string{api.RequiresLockKey: "true", api.ValueKey: "100Mi"}

	kept := launcher(request)
	if got := f.memlock(t, f.run(t, kept, cri.Container{MemoryLimit: gib})); got !=
		"unlimited unlimited" {
		t.Errorf("the kernel has %s, want the runtime's unlimited", got)
	}
	f.awaitEvent(t, kept, agentapi.ReasonLimitYielded)
	lowered := launcher(request)
	lowered.Namespace = "modest-runtime"
	if got := f.memlock(t, f.run(t, lowered, cri.Container{MemoryLimit: 512 << 20})); got !=
		both(612<<20) {
		t.Errorf("the kernel has %s, want %s", got, both(612<<20))
	}
	f.awaitEvent(t, lowered, agentapi.ReasonLimitLowered)
}
