package decide_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/decide/decidetest"
)

func TestContainerLifecycle(t *testing.T) {
	f := facts("trusted", map[string]string{
		api.DomainKey: "vms-1", api.GracePeriodKey: "90s",
		api.WatchdogKey + "/container.compute": "1h30m",
	})
	d := decide.Container(decidetest.Policy(t, policy.Enforce), f)
	if !d.Act() || d.Rule != "trusted" || d.Domain != "vms-1" || d.GracePeriod != 90*time.Second ||
		d.Watchdog != 90*time.Minute {
		t.Errorf("decision %+v, refusal %v", d, d.Refusal)
	}
	if notes := strings.Join(d.Notes, "\n"); !strings.Contains(notes,
		`the VM is domain "vms-1" of the node's libvirt`) {
		t.Errorf("notes %q", notes)
	}
	f = facts("nowhere", map[string]string{api.GracePeriodKey: "90s"})
	if d := decide.Container(decidetest.Policy(t, policy.Enforce), f); !d.Act() ||
		d.GracePeriod != 90*time.Second || d.Watchdog != 0 || d.Domain != "" {
		t.Errorf("without a rule: %+v", d)
	}
}

// The maximum also applies to launchers without a rule, and to running ones.
func TestGracePeriodHasACeiling(t *testing.T) {
	p := decidetest.Policy(t, policy.Enforce)
	p.Lifecycle.MaxGracePeriod = time.Minute
	for asked, want := range map[string]time.Duration{"59s": 59 * time.Second, "1m": time.Minute,
		"61s": time.Minute, "168h": time.Minute} {
		f := facts("nowhere", map[string]string{api.GracePeriodKey + "/pod": asked})
		for _, f := range []decide.Facts{f, existing(f)} {
			d := decide.Container(p, f)
			if tooLong := len(asked) > 3 || asked == "61s"; d.GracePeriod != want ||
				(d.Refusal != nil) != tooLong {
				t.Errorf("%s: grace period %s, refusal %v", asked, d.GracePeriod, d.Refusal)
			}
		}
	}
	d := decide.Container(p,
		facts("nowhere", map[string]string{api.GracePeriodKey + "/pod": "168h"}))
	const message = "annotation grace-period.lifecycle.mooring.dev/pod: \"168h\": want at most 1m0s"
	if d.Refusal.Reason != agentapi.ReasonGracePeriodRefused ||
		!strings.Contains(d.Refusal.Message, message) {
		t.Errorf("refusal %+v", d.Refusal)
	}
}

func TestDomainNeedsLibvirt(t *testing.T) {
	p := decidetest.Policy(t, policy.Enforce)
	p.Lifecycle.Libvirt = nil
	d := decide.Container(p, claimed(facts("trusted", decidetest.Domain("vms-1"))))
	if d.Refusal == nil || d.Refusal.Reason != agentapi.ReasonDomainRefused || d.Domain != "" ||
		!strings.Contains(d.Refusal.Message, "names no libvirt of the node (lifecycle.libvirt)") {
		t.Errorf("decision %+v", d)
	}
}

// A running launcher keeps its VM if the policy refuses its memory lock.
func TestRefusedLauncherKeepsItsDomain(t *testing.T) {
	requests := decidetest.Lock("100Gi")
	requests[api.DomainKey] = "vms-1"
	if d := decide.Container(decidetest.Policy(t, policy.Enforce),
		existing(facts("trusted", requests))); d.Refusal == nil || d.Domain != "vms-1" {
		t.Errorf("decision %+v", d)
	}
	for name, f := range map[string]decide.Facts{
		"claimed":     claimed(facts("trusted", decidetest.Domain("vms-1"))),
		"not allowed": facts("trusted", decidetest.Domain("db-1")),
		"no rule":     facts("nowhere", decidetest.Domain("vms-1")),
	} {
		if d := decide.Container(decidetest.Policy(t, policy.Enforce), existing(f)); d.Refusal ==
			nil || d.Domain != "" {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// Two spellings of a UUID are one domain.
func TestDomainByAnyForm(t *testing.T) {
	p := decidetest.Policy(t, policy.Enforce)
	p.Rules[0].Domains = []string{"*"}
	for declared, want := range map[string]string{
		strings.ToUpper(decidetest.DomainUUID):             decidetest.DomainUUID,
		strings.ReplaceAll(decidetest.DomainUUID, "-", ""): decidetest.DomainUUID,
		"{" + decidetest.DomainUUID + "}":                  "{" + decidetest.DomainUUID + "}",
		"VMs-1":                                            "VMs-1",
		strings.Repeat("g", 32):                            strings.Repeat("g", 32),
	} {
		if d := decide.Container(p, facts("trusted", decidetest.Domain(declared))); d.Domain !=
			want {
			t.Errorf("%s: domain %q, want %q", declared, d.Domain, want)
		}
	}
}

// A memory limit does not bound a VM outside of the container.
func TestMemoryLimitDoesNotBoundADomain(t *testing.T) {
	strict := decidetest.Policy(t, policy.Enforce)
	strict.Memlock.RequireMemoryLimit = true
	small := decidetest.Policy(t, policy.Enforce)
	small.Memlock.NodeMax = 4 * gi
	const outside = `and the VM of container "compute" runs outside of its memory limit, in the ` +
		`node's libvirt; `
	for name, c := range map[string]struct {
		policy   *policy.Policy
		requests map[string]string
		want     string // in the refusal; empty: none
	}{
		"allowed":  {decidetest.Policy(t, policy.Enforce), decidetest.VFIO(), ""},
		"no lock":  {strict, nil, ""},
		"required": {strict, decidetest.VFIO(), outside + "have the policy changed"},
		"unlimited": {decidetest.Policy(t, policy.Enforce), decidetest.UnlimitedLock(),
			outside + "ask for a limited lock"},
		"node is full": {small, decidetest.VFIO(), "this one counts with 5Gi, including its VM in " +
			"the node's libvirt"},
	} {
		f := facts("trusted", decidetest.Domain("vms-1"))
		maps.Copy(f.Annotations, c.requests)
		d := decide.Container(c.policy, f)
		if (d.Refusal == nil) != (c.want == "") ||
			d.Refusal != nil && !strings.Contains(d.Refusal.Message, c.want) {
			t.Errorf("%s: refusal %v, want %q", name, d.Refusal, c.want)
		}
		noted := strings.Contains(strings.Join(d.Notes, "\n"), "unbounded: ")
		if noted != (c.requests != nil) {
			t.Errorf("%s: notes %q", name, d.Notes)
		}
	}
}

func TestDocumentedDomainRefusal(t *testing.T) {
	d := decide.Container(decidetest.Policy(t, policy.Enforce),
		claimed(facts("trusted", decidetest.Domain("vms-1"))))
	_, shown, _ := strings.Cut(d.Refusal.Message, ": ")
	if !strings.Contains(readDoc(t, "docs", "reference", "annotations.md"), "\n    "+shown+"\n") {
		t.Errorf("the documentation does not show\n%s", shown)
	}
}
