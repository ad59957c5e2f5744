package decide_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

func TestContainerObserves(t *testing.T) {
	requests := decidetest.VFIO()
	requests["memory.high"+api.CgroupSuffix] = "1Gi"
	d := decide.Container(decidetest.Policy(t, policy.Observe), facts("trusted", requests))
	if d.Act() {
		t.Error("observe mode acts")
	}
	if len(d.Remarks) != 1 || d.Remarks[0].Reason != agentapi.ReasonWouldSet {
		t.Fatalf("remarks = %+v, want one %s", d.Remarks, agentapi.ReasonWouldSet)
	}
	for _, want := range []string{"RLIMIT_MEMLOCK to 5Gi", "memory.high to 1Gi"} {
		if !strings.Contains(d.Remarks[0].Message, want) {
			t.Errorf("message lacks %q: %s", want, d.Remarks[0].Message)
		}
	}
	for _, s := range d.Settings {
		if s.Status != agentapi.StatusObserved || s.Given != "" {
			t.Errorf("setting in observe mode: %+v", s)
		}
	}
}

func TestContainerObserveYields(t *testing.T) {
	f := facts("trusted", decidetest.VFIO())
	f.SpecMemlock = &host.Rlimit{Soft: 8 * gi, Hard: 8 * gi}
	d := decide.Container(decidetest.Policy(t, policy.Observe), f)
	want := "observe mode, nothing is done: the container's spec has RLIMIT_MEMLOCK 8Gi already, " +
		"which covers the 5Gi asked for: left alone"
	if len(d.Remarks) != 1 || d.Remarks[0].Reason != agentapi.ReasonWouldSet ||
		d.Remarks[0].Message != want {
		t.Errorf("remarks = %+v, want %s: %s", d.Remarks, agentapi.ReasonWouldSet, want)
	}
}

func TestContainerObserveWithoutRequest(t *testing.T) {
	if d := decide.Container(decidetest.Policy(t, policy.Observe), facts("trusted", nil)); len(
		d.Remarks) != 0 {
		t.Errorf("remarks = %+v, want none", d.Remarks)
	}
}

func TestContainerSettings(t *testing.T) {
	requests := decidetest.VFIO()
	requests["memory.high"+api.CgroupSuffix] = "1Gi"
	d := decide.Container(decidetest.Policy(t, policy.Enforce), facts("trusted", requests))
	want := []agentapi.Setting{
		{
			Name: agentapi.MemlockSetting, Requested: "5Gi", Allowed: "32Gi", Given: "5Gi",
			Status: agentapi.StatusPending,
			Terms: []agentapi.Term{
				{Name: "guest memory", Bytes: 4 * gi},
				{Name: "libvirt's allowance for device I/O", Bytes: gi},
			},
		},
		{Name: "memory.high", Requested: "1Gi", Allowed: "1Gi", Given: "1Gi",
			Status: agentapi.StatusPending},
	}
	if diff := cmp.Diff(want, d.Settings); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestContainerYieldIsReported(t *testing.T) {
	spec := host.Rlimit{Soft: 8 * gi, Hard: 8 * gi}
	d := decide.Container(decidetest.Policy(t, policy.Enforce),
		withSpec(facts("trusted", decidetest.VFIO()), spec))
	if len(d.Remarks) != 1 || d.Remarks[0].Reason != agentapi.ReasonLimitYielded ||
		d.Remarks[0].Type != agentapi.Normal {
		t.Errorf("remarks = %+v, want one %s", d.Remarks, agentapi.ReasonLimitYielded)
	}
	s := d.Settings[0]
	if s.Status != agentapi.StatusYielded || s.Requested != "5Gi" || s.Given != "8Gi" {
		t.Errorf("setting = %+v, want yielded, asked 5Gi, given 8Gi", s)
	}
}

// TestInheritedLimit: the runtime has a higher limit than the launcher asks for. An estimate lowers
// no limit, and the rule's maximum does.
func TestInheritedLimit(t *testing.T) {
	for _, c := range []struct {
		namespace string
		has       host.Limit
		mode      policy.Mode
		yield     bool
		reason    agentapi.Reason
		text      string
	}{
		{"trusted", host.Unlimited, policy.Enforce, true, agentapi.ReasonLimitYielded,
			"the container inherits RLIMIT_MEMLOCK unlimited already, which covers the 5Gi"},
		{"trusted", 8 << 20, policy.Enforce, false, "", ""},
		{"tenant-a", host.Unlimited, policy.Enforce, false, agentapi.ReasonLimitLowered,
			"RLIMIT_MEMLOCK unlimited of the container runtime lowered to the 5Gi asked for: rule"},
		{"tenant-a", 6 * gi, policy.Enforce, true, agentapi.ReasonLimitYielded, "6Gi already"},
		{"trusted", host.Unlimited, policy.Observe, true, agentapi.ReasonWouldSet,
			"observe mode, nothing is done: the container inherits"},
	} {
		f := facts(c.namespace, decidetest.VFIO())
		f.Inherited = &host.Rlimit{Soft: c.has, Hard: c.has}
		d := decide.Container(decidetest.Policy(t, c.mode), f)
		if d.Refusal != nil || d.Yield != c.yield {
			t.Errorf("%s inherits %s: yields %t, refusal %v", c.namespace, c.has, d.Yield,
				d.Refusal)
		}
		var got agentapi.Reason
		var text string
		if len(d.Remarks) > 0 {
			got, text = d.Remarks[0].Reason, d.Remarks[0].Message
		}
		if got != c.reason || !strings.Contains(text, c.text) {
			t.Errorf("%s inherits %s: %s %q, want %s %q", c.namespace, c.has, got, text, c.reason,
				c.text)
		}
	}
}

func TestStrayAnnotations(t *testing.T) {
	p := decidetest.Policy(t, policy.Enforce)
	requests := map[string]string{api.GuestMemoryKey: "4Gi"}
	for name, test := range map[string]struct {
		labels, annotations map[string]string
		want                string // "": no remark
	}{
		"annotations without a launcher": {nil, requests, api.LauncherKey},
		"launcher annotation is no name": {nil, map[string]string{api.LauncherKey: "Not A Name"},
			`"Not A Name"`},
		"launcher by annotation":        {nil, decidetest.Launcher(requests), ""},
		"launcher by label":             {decidetest.LauncherLabels(), requests, ""},
		"plain pod":                     {nil, map[string]string{"example.com/a": "b"}, ""},
		"plain pod without annotations": {nil, nil, ""},
		"key that only looks like ours": {nil, map[string]string{"notmooring.dev/a": "b"}, ""},
		"unknown key under our suffix": {nil, map[string]string{"x" + api.Suffix: "b"},
			api.LauncherKey},
		"label of another KubeVirt's pod": {map[string]string{"kubevirt.io": "virt-api"}, requests,
			api.LauncherKey},
	} {
		t.Run(name, func(t *testing.T) {
			remark, ok := decide.StrayAnnotations(p, test.labels, test.annotations)
			if ok != (test.want != "") || !strings.Contains(remark.Message, test.want) {
				t.Errorf("StrayAnnotations = %+v, %v, want a message with %q", remark,
					ok, test.want)
			}
		})
	}
}
