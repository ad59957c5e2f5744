package decide_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// The overhead adds to the guest's memory: KubeVirt's number, or else an estimate with 8 MiB for
// each CPU.
func TestOverhead(t *testing.T) {
	requests := func(more ...string) map[string]string {
		annotations := map[string]string{api.RequiresLockKey: "true", api.GuestMemoryKey: "4Gi"}
		for i := 0; i < len(more); i += 2 {
			annotations[more[i]] = more[i+1]
		}
		return annotations
	}
	for name, test := range map[string]struct {
		annotations  map[string]string
		cpus         int64
		architecture string
		want         host.Limit
	}{
		// 288 MiB, 8 MiB and a byte of page tables
		"estimated":    {requests(), 0, "amd64", 4*gi + 297*mi},
		"for each CPU": {requests(), 3500, "amd64", 4*gi + 321*mi},
		"on Arm":       {requests(), 0, "arm64", 4*gi + 425*mi},
		"elsewhere":    {requests(), 0, "riscv64", 4*gi + 297*mi},
		"as KubeVirt wrote": {requests(decide.KubeVirtOverheadKey, "283115521"), 3500, "amd64",
			4*gi + 283115521},
		"libvirt's sum is larger": {requests(api.DevicesKey, "vfio=1"), 0, "amd64", 5 * gi},
		"KubeVirt's with VFIO is": {requests(api.DevicesKey, "vfio=1", decide.KubeVirtOverheadKey,
			"1356857344"), 0, "amd64", 4*gi + 1356857344},
		"as the webhook wrote": {requests(api.OverheadKey, "283115520", decide.KubeVirtOverheadKey,
			"283115521"), 3500, "amd64", 4*gi + 283115520},
		"a memory limit includes it": {map[string]string{api.RequiresLockKey: "true",
			decide.KubeVirtOverheadKey: "283115521"}, 0, "", 2 * gi},
		"no lock is requested": {map[string]string{decide.KubeVirtOverheadKey: "x"}, 0, "", 0},
		"guest memory alone": {map[string]string{api.GuestMemoryKey: "4Gi",
			decide.KubeVirtOverheadKey: "x"}, 0, "", 0},
	} {
		f := facts("trusted", test.annotations)
		f.CPUs, f.Architecture = test.cpus, test.architecture
		d := decide.Container(decidetest.Policy(t, policy.Enforce), f)
		if d.Refusal != nil {
			t.Errorf("%s: %v", name, d.Refusal)
			continue
		}
		var got host.Limit
		if d.Memlock != nil {
			got = *d.Memlock
		}
		if got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// The VM process with devices needs libvirt's formula and the value. Without devices it needs the
// whole lock.
func TestLockOfTheVM(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		lock        host.Limit
		vm          *host.Limit
	}{
		"devices": {map[string]string{api.DevicesKey: "vfio=1", api.GuestMemoryKey: "4Gi",
			api.OverheadKey: "2Gi", api.ValueKey: "1Gi"}, 7 * gi, new(host.Limit(6 * gi))},
		"no devices": {map[string]string{api.RequiresLockKey: "true", api.GuestMemoryKey: "4Gi",
			api.OverheadKey: "2Gi"}, 6 * gi, nil},
	} {
		d := decide.Container(decidetest.Policy(t, policy.Enforce), facts("trusted", c.annotations))
		if diff := cmp.Diff([]any{&c.lock, c.vm}, []any{d.Memlock, d.VMLock}); diff != "" {
			t.Errorf("%s: lock and VM's lock (-want +got)\n%s", name, diff)
		}
	}
}

func TestOverheadThatIsNoNumber(t *testing.T) {
	for _, value := range []string{"", "283Mi", "-1", "1e9", "99999999999999999999"} {
		f := facts("trusted", map[string]string{api.RequiresLockKey: "true",
			api.GuestMemoryKey: "4Gi", decide.KubeVirtOverheadKey: value})
		d := decide.Container(decidetest.Policy(t, policy.Enforce), f)
		want := decide.KubeVirtOverheadKey + `: "` + value + `": want KubeVirt's number of bytes`
		if d.Refusal == nil || !strings.Contains(d.Refusal.Message, want) {
			t.Errorf("%q: %v", value, d.Refusal)
		}
	}
}
