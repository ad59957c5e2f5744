package api

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	yes, gib, minute := true, int64(1<<30), time.Minute
	for name, c := range map[string]struct {
		annotations map[string]string
		want        Request
	}{
		"no keys": {nil, Request{}},
		"foreign keys": {map[string]string{"example.org/x": "-1", "notmooring.dev": "1",
			"mooring.dev.example.org/x": "1"}, Request{}},
		"everything": {map[string]string{
			LauncherKey: "compute", APIVersionKey: "v1alpha1", RequiresLockKey: "true",
			ValueKey: "1Gi", GuestMemoryKey: "1Gi", OverheadKey: "1Gi",
			DevicesKey: "vfio=2,iommu", GracePeriodKey: "1m", WatchdogKey: "60s", DomainKey: "vm-1",
			VCPUsKey:        "4",
			ResizeMemoryKey: "1Gi", CPUQuotaKey: "150%", CPUSharesKey: "200",
			"memory.high.cgroup.mooring.dev": "9Gi", "hugetlb.2MB.max.cgroup.mooring.dev": "2Mi",
			"io.weight.cgroup.mooring.dev": "50",
		}, Request{
			RequiresLock: &yes, Value: &Lockable{Bytes: gib}, GuestMemory: &gib,
			Overhead:    (*Bytes)(&gib),
			Devices:     Devices{VFIO: 2, IOMMU: true},
			GracePeriod: &minute, Watchdog: &minute, Domain: "vm-1",
			Size: Size{VCPUs: 4, Memory: 1 << 30, CPUQuota: CPUQuota{Percent: 150},
				CPUShares: 200},
			Cgroup: []CgroupSetting{{"hugetlb.2MB.max", "2097152"}, {"io.weight", "default 50"},
				{"memory.high", "9663676416"}},
		}},
		"container before pod before bare": {map[string]string{
			ValueKey: "1Ki", ValueKey + "/pod": "2Ki", ValueKey + "/container.compute": "1Gi",
			VCPUsKey: "2", VCPUsKey + "/pod": "4",
			"pids.max.cgroup.mooring.dev": "1", "pids.max.cgroup.mooring.dev/pod": "2",
			"pids.max.cgroup.mooring.dev/container.compute": "3",
		}, Request{Value: &Lockable{Bytes: gib}, Size: Size{VCPUs: 4},
			Cgroup: []CgroupSetting{{"pids.max", "3"}}}},
		"values of other containers do not matter": {map[string]string{
			ValueKey + "/container.sidecar":                    "garbage",
			"memory.high.cgroup.mooring.dev/container.sidecar": "-1", DevicesKey + "/pod": "vfio=1",
		}, Request{Devices: Devices{VFIO: 1}}},
		"values that lose do not matter": {map[string]string{ValueKey: "garbage",
			ValueKey + "/pod": "1Gi"}, Request{Value: &Lockable{Bytes: gib}}},
		"unlimited": {map[string]string{ValueKey: "unlimited"},
			Request{Value: &Lockable{Unlimited: true}}},
	} {
		got, err := Parse(c.annotations, "compute")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// refusal is an invalid annotation with a part of its error text.
type refusal struct{ key, value, allowed string }

func refusedByValue() []refusal {
	return []refusal{
		{ValueKey, "1e30", "want a whole number of bytes as a quantity"},
		{ValueKey, "", `or "unlimited"`},
		{ValueKey + "/pod", "-1", "want a whole number"},
		{ValueKey + "/container.compute", "1m", "fraction of a byte"},
		{GuestMemoryKey, "0", "zero makes no sense here"},
		{GuestMemoryKey, "unlimited", "want a whole number"},
		{OverheadKey, "-1", "want a whole number"},
		{OverheadKey, "0.1", "fraction of a byte"},
		{ResizeMemoryKey, "0Gi", "zero makes no sense here"},
		{ResizeMemoryKey, "8Ei", "too large"},
		{RequiresLockKey, "True", `want "true" or "false"`},
		{RequiresLockKey, "", `want "true" or "false"`},
		{RequiresLockKey, "yes", `want "true" or "false"`},
		{DevicesKey, "vfio=1,vfio=1", `"vfio" is there twice`},
		{DevicesKey, "", "want a list such as"},
		{GracePeriodKey, "0s", "want whole seconds"},
		{WatchdogKey, "30", "want whole seconds"},
		{DomainKey, "a/b", "UUID or name"},
		{VCPUsKey, "0", "between 1 and 8192"},
		{CPUQuotaKey, "-5%", "between 1% and 819200%"},
		{CPUSharesKey, "1", "want CPU shares between 2 and 10000"},
		{CPUSharesKey + "/container.compute", "10001", "want CPU shares between 2 and 10000"},
		{LauncherKey, "", "want a container's name"},
		{LauncherKey, "My_Container", "want a container's name"},
		{LauncherKey, strings.Repeat("x", 64), "want a container's name"},
		{SidecarKey, "", "want a container's name"},
		{SidecarKey, "compute", "is the launcher: want the name of another container"},
		{"memory.high.cgroup.mooring.dev", "1e30",
			`want a quantity such as 9Gi of at least 64Ki, or "max"`},
		{"memory.high.cgroup.mooring.dev", "", "want a quantity"},
	}
}

func refusedByKey() []refusal {
	long := strings.Repeat("x", MaxScopedContainerName+1)
	return []refusal{
		{SidecarKey + "/container.compute", "shim", "concerns the pod as a whole: want " +
			"sidecar.mooring.dev or sidecar.mooring.dev/pod"},
		{LauncherKey + "/container.compute", "compute", "concerns the pod as a whole: want " +
			"launcher.mooring.dev or launcher.mooring.dev/pod"},
		{"memory.max.cgroup.mooring.dev", "9Gi", "belongs to kubelet"},
		{"memory.hihg.cgroup.mooring.dev", "9Gi", "unknown cgroup file: want one of cpu.idle, "},
		{".cgroup.mooring.dev", "9Gi", "unknown cgroup file"},
		{"cgroup.mooring.dev", "9Gi", "unknown key"},
		{"valu.memlock.mooring.dev", "1Gi", "unknown key: want one of launcher.mooring.dev, "},
		{"mooring.dev", "1", "unknown key"},
		{"mooring.dev/value", "1", "unknown key"},
		{".mooring.dev", "1", "unknown key"},
		{"x.mooring.dev/value.memlock.mooring.dev", "1", "unknown key"},
		{"Value.memlock.mooring.dev", "1Gi", "unknown key"},
		{"value.memlock.MOORING.dev", "1Gi", "unknown key"},
		{ValueKey + "/", "1Gi", "unknown scope: want value.memlock.mooring.dev, " +
			"value.memlock.mooring.dev/pod or"},
		{ValueKey + "/Pod", "1Gi", "unknown scope"},
		{ValueKey + "/pods", "1Gi", "unknown scope"},
		{ValueKey + "/compute", "1Gi", "unknown scope"},
		{ValueKey + "/pod/x", "1Gi", "unknown scope"},
		{ValueKey + "/containers.compute", "1Gi", "unknown scope"},
		{ValueKey + "/container.", "1Gi", "want a container's name"},
		{ValueKey + "/container.Compute", "1Gi", "want a container's name"},
		{ValueKey + "/container.a/b", "1Gi", "want a container's name"},
		{ValueKey + "/container.größe", "1Gi", "want a container's name"},
		{ValueKey + "/container." + long, "1Gi", "over 53 characters do not fit a key: use " +
			"value.memlock.mooring.dev/pod"},
		{"pids.max.cgroup.mooring.dev/" + long, "1", "unknown scope"},
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range append(refusedByValue(), refusedByKey()...) {
		got, err := Parse(map[string]string{c.key: c.value, "example.org/other": "-1"}, "compute")
		invalid, ok := errors.AsType[*InvalidError](err)
		if !ok || invalid.Key != c.key || invalid.Value != c.value ||
			!strings.Contains(invalid.Allowed, c.allowed) {
			t.Errorf("%s: %q: got %v, want the key, the value and %q", c.key, c.value,
				err, c.allowed)
		}
		if diff := cmp.Diff(Request{}, got); diff != "" {
			t.Errorf("%s: %q: a Request beside the error: %s", c.key, c.value, diff)
		}
	}
}

func TestParseTakesLongestContainerName(t *testing.T) {
	name := strings.Repeat("x", MaxScopedContainerName)
	key := ValueKey + "/container." + name
	if _, scope, _ := strings.Cut(key, "/"); len(scope) != 63 {
		t.Fatalf("the part after the slash has %d characters, Kubernetes takes 63", len(scope))
	}
	got, err := Parse(map[string]string{key: "1"}, name)
	if err != nil || got.Value == nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestParseReportsAllFaults(t *testing.T) {
	_, err := Parse(map[string]string{ValueKey: "x", "b.mooring.dev": "1",
		VCPUsKey + "/container.other/": "0", DevicesKey: "vfio"}, "compute")
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("got %v, want joined errors", err)
	}
	var keys []string
	for _, err := range joined.Unwrap() {
		if invalid, ok := errors.AsType[*InvalidError](err); ok {
			keys = append(keys, invalid.Key)
		}
	}
	if diff := cmp.Diff([]string{"b.mooring.dev", DevicesKey, ValueKey,
		VCPUsKey + "/container.other/"}, keys); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A pod may have 256 KiB of annotations, but the error must fit a message to the runtime.
func TestParseErrorIsShortAndPrintable(t *testing.T) {
	annotations := map[string]string{ValueKey: strings.Repeat("\x1b[31m\u202e", 10000),
		strings.Repeat("\x00", 10000) + Suffix: "x"}
	for i := range 10000 {
		annotations[fmt.Sprintf("k%d.mooring.dev", i)] = "x"
	}
	_, err := Parse(annotations, "compute")
	text := err.Error()
	if len(text) > 10_000 || strings.ContainsAny(text, "\x00\x1b\u202e") {
		t.Errorf("%d bytes: %.300q", len(text), text)
	}
	if !strings.Contains(text, "and 9992 more invalid annotations") {
		t.Errorf("does not count the rest: ...%q", text[len(text)-80:])
	}
}

func TestParseVersion(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{APIVersionKey, "v1", "this node understands v1alpha1"},
		{APIVersionKey, "v1alpha2", "newer webhook"},
		{APIVersionKey + "/pod", "v2", "this node understands v1alpha1"},
		{APIVersionKey, "", `want "v1alpha1"`},
		{APIVersionKey, "V1alpha1", "this node understands"},
		{APIVersionKey, "v1alpha1 ", "this node understands"},
		{APIVersionKey + "/container.compute", "v1alpha1", "concerns the pod as a whole"},
	} {
		_, err := Parse(map[string]string{c.key: c.value, "brand-new.mooring.dev": "x",
			ValueKey: "half of it"}, "compute")
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "unknown key") {
			t.Errorf("%s: %q: got %v, want only %q", c.key, c.value, err, c.want)
		}
	}
}

func TestLauncher(t *testing.T) {
	for _, c := range []struct {
		annotations map[string]string
		want        string
		ok, refused bool
	}{
		{nil, "", false, false},
		{map[string]string{ValueKey: "1"}, "", false, false},
		{map[string]string{LauncherKey: "compute"}, "compute", true, false},
		{map[string]string{LauncherKey: "a", LauncherKey + "/pod": "b"}, "b", true, false},
		{map[string]string{LauncherKey: strings.Repeat("x", 63)}, strings.Repeat("x", 63),
			true, false},
		{map[string]string{LauncherKey: ""}, "", false, true},
		{map[string]string{LauncherKey: "com pute"}, "", false, true},
		{map[string]string{LauncherKey: "compute", LauncherKey + "/container.compute": "true"}, "",
			false, true},
		{map[string]string{LauncherKey + "/container.": "compute"}, "", false, true},
		{map[string]string{LauncherKey: "compute", "bad.mooring.dev": "x", APIVersionKey: "v9"},
			"compute", true, false},
	} {
		got, ok, err := Launcher(c.annotations)
		if got != c.want || ok != c.ok || (err != nil) != c.refused {
			t.Errorf("Launcher(%v) = %q, %v, %v", c.annotations, got, ok, err)
		}
		sidecar := map[string]string{}
		for key, value := range c.annotations {
			sidecar[strings.Replace(key, LauncherKey, SidecarKey, 1)] = value
		}
		if got, ok, err := Sidecar(sidecar); got != c.want || ok != c.ok ||
			(err != nil) != c.refused {
			t.Errorf("Sidecar(%v) = %q, %v, %v", sidecar, got, ok, err)
		}
	}
}

func TestRelevant(t *testing.T) {
	for key, want := range map[string]bool{
		ValueKey: true, ValueKey + "/pod": true, "typo.mooring.dev": true, "mooring.dev/x": true,
		"X.Mooring.Dev": true,
		"":              false, "mooring.development": false, "amooring.dev": false,
		"example.org/mooring.dev": false, "mooring.dev.example.org/x": false,
		"required-plugins.noderesource.dev": false,
	} {
		if got := Relevant(map[string]string{"example.org/a": "b", key: "x"}); got != want {
			t.Errorf("Relevant(%q) = %v", key, got)
		}
	}
	if Relevant(nil) {
		t.Error("no annotations are relevant")
	}
}
