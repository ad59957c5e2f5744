package plugin_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/plugin"
)

const domainUUID = "5530f9f3-5627-4dec-933e-74ce04c51e18"

func TestDecideLifecycle(t *testing.T) {
	f := facts("trusted", map[string]string{
		api.DomainKey: "vms-1", api.GracePeriodKey: "90s", api.WatchdogKey + "/container.compute": "1h30m",
	})
	d := plugin.Decide(parsePolicy(t, policy.Enforce), f)
	if !d.Act() || d.Rule != "trusted" || d.Domain != "vms-1" || d.GracePeriod != 90*time.Second || d.Watchdog != 90*time.Minute {
		t.Errorf("decision %+v, refusal %v", d, d.Refusal)
	}
	if notes := strings.Join(d.Notes, "\n"); !strings.Contains(notes, `the VM is domain "vms-1" of the node's libvirt`) {
		t.Errorf("notes %q", notes)
	}
	f = facts("nowhere", map[string]string{api.GracePeriodKey: "90s"})
	if d := plugin.Decide(parsePolicy(t, policy.Enforce), f); !d.Act() || d.GracePeriod != 90*time.Second || d.Watchdog != 0 || d.Domain != "" {
		t.Errorf("without a rule: %+v", d)
	}
}

// The ceiling holds also for launchers that need no rule, and that run already.
func TestGracePeriodHasACeiling(t *testing.T) {
	p := parsePolicy(t, policy.Enforce)
	p.Lifecycle.MaxGracePeriod = time.Minute
	for asked, want := range map[string]time.Duration{"59s": 59 * time.Second, "1m": time.Minute, "61s": time.Minute, "168h": time.Minute} {
		f := facts("nowhere", map[string]string{api.GracePeriodKey + "/pod": asked})
		for _, f := range []plugin.Facts{f, existing(f)} {
			d := plugin.Decide(p, f)
			if tooLong := len(asked) > 3 || asked == "61s"; d.GracePeriod != want || (d.Refusal != nil) != tooLong {
				t.Errorf("%s: grace period %s, refusal %v", asked, d.GracePeriod, d.Refusal)
			}
		}
	}
	d := plugin.Decide(p, facts("nowhere", map[string]string{api.GracePeriodKey + "/pod": "168h"}))
	const message = "annotation grace-period.lifecycle.mooring.dev/pod: \"168h\": want at most 1m0s"
	if d.Refusal.Reason != agentapi.ReasonGracePeriodRefused || !strings.Contains(d.Refusal.Message, message) {
		t.Errorf("refusal %+v", d.Refusal)
	}
}

func TestDomainNeedsLibvirt(t *testing.T) {
	p := parsePolicy(t, policy.Enforce)
	p.Lifecycle.Libvirt = nil
	d := plugin.Decide(p, claimed(facts("trusted", domain("vms-1"))))
	if d.Refusal == nil || d.Refusal.Reason != agentapi.ReasonDomainRefused || d.Domain != "" ||
		!strings.Contains(d.Refusal.Message, "names no libvirt of the node (lifecycle.libvirt)") {
		t.Errorf("decision %+v", d)
	}
}

// A launcher that is refused for something else, and runs, keeps its VM.
func TestRefusedLauncherKeepsItsDomain(t *testing.T) {
	asks := lock("100Gi")
	asks[api.DomainKey] = "vms-1"
	if d := plugin.Decide(parsePolicy(t, policy.Enforce), existing(facts("trusted", asks))); d.Refusal == nil || d.Domain != "vms-1" {
		t.Errorf("decision %+v", d)
	}
	for name, f := range map[string]plugin.Facts{
		"claimed":     claimed(facts("trusted", domain("vms-1"))),
		"not allowed": facts("trusted", domain("db-1")),
		"no rule":     facts("nowhere", domain("vms-1")),
	} {
		if d := plugin.Decide(parsePolicy(t, policy.Enforce), existing(f)); d.Refusal == nil || d.Domain != "" {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestDomainIsOfOnePod(t *testing.T) {
	n := newNode(t, policy.Enforce)
	first, second := newPod("u1", domain(domainUUID)), newPod("u2", domain(domainUUID))
	_, err := n.create(first, newContainer(first, "compute"))
	must(t, err)
	if l := n.launcher(t, first); l.Domain != domainUUID {
		t.Errorf("launcher %+v", l)
	}
	_, err = n.create(second, newContainer(second, "compute"))
	if err == nil || !strings.Contains(err.Error(), "pod trusted/vm-u1 has claimed that domain") {
		t.Fatalf("error %v", err)
	}
	if l := n.launcher(t, second); l.Domain != "" || l.State != agentapi.StateRefused {
		t.Errorf("launcher %+v", l)
	}
	again := newContainer(first, "compute") // the pod's own claim is none against it
	again.Id = "again"
	_, err = n.create(first, again)
	must(t, err)
	must(t, n.StopPodSandbox(t.Context(), first))
	_, err = n.create(second, newContainer(second, "compute"))
	must(t, err)
}

// One domain is not two for being written in two ways.
func TestDomainByAnyForm(t *testing.T) {
	p := parsePolicy(t, policy.Enforce)
	p.Rules[0].Domains = []string{"*"}
	for declared, want := range map[string]string{
		strings.ToUpper(domainUUID): domainUUID, strings.ReplaceAll(domainUUID, "-", ""): domainUUID,
		"{" + domainUUID + "}": "{" + domainUUID + "}", "VMs-1": "VMs-1", strings.Repeat("g", 32): strings.Repeat("g", 32),
	} {
		if d := plugin.Decide(p, facts("trusted", domain(declared))); d.Domain != want {
			t.Errorf("%s: domain %q, want %q", declared, d.Domain, want)
		}
	}
}

// alias has two names for one domain.
type alias [2]string

func (a alias) Same(x, y string) bool { return a == alias{x, y} || a == alias{y, x} }

// The pods of a domain are two, one of which names it and the other has its UUID.
func TestDomainByNameAndUUID(t *testing.T) {
	n := newNode(t, policy.Enforce)
	first, second := newPod("u1", domain("vms-1")), newPod("u2", domain(domainUUID))
	_, err := n.create(first, newContainer(first, "compute"))
	must(t, err)
	n.Domains = alias{"vms-1", domainUUID}
	_, err = n.create(second, newContainer(second, "compute"))
	if err == nil || !strings.Contains(err.Error(), "pod trusted/vm-u1 has claimed that domain") {
		t.Errorf("error %v, want that the first pod has it", err)
	}
	n.Domains = alias{"another", domainUUID}
	_, err = n.create(second, newContainer(second, "compute"))
	must(t, err)
}

// Of two that run already and claim the same, it is the older one's, in whatever
// order the runtime lists them; a list that was not taken over yet counts as well.
func TestOlderPodHasTheDomain(t *testing.T) {
	withRun(t, policy.Enforce, func(t *testing.T, n *node) {
		older, newer := newPod("older", domain("vms-1")), newPod("newer", domain("vms-1"))
		early, late := n.running(older, 100, 0), n.running(newer, 101, 0)
		early.CreatedAt, late.CreatedAt = 1, 2
		n.synchronize(t, []*nri.PodSandbox{newer, older}, []*nri.Container{late, early})
		if l := n.launcher(t, older); l.Domain != "vms-1" || l.Refusal != "" {
			t.Errorf("older: %+v", l)
		}
		if l := n.launcher(t, newer); l.Domain != "" || !strings.Contains(l.Refusal, "pod trusted/vm-older has claimed") {
			t.Errorf("newer: %+v", l)
		}
		events := n.recorder.Events()
		if len(events) != 1 || events[0].Reason != agentapi.ReasonDomainClaimed || !strings.Contains(events[0].Message, "it runs although") {
			t.Errorf("events %+v", events)
		}
	})
}

func TestListedPodHasTheDomain(t *testing.T) {
	n := newNode(t, policy.Enforce) // Run does not work
	listed, late := newPod("u1", domain("vms-1")), newPod("u2", domain("vms-1"))
	_, err := n.Synchronize(t.Context(), []*nri.PodSandbox{listed}, []*nri.Container{n.running(listed, 100, 0)})
	must(t, err)
	if _, err := n.create(late, newContainer(late, "compute")); err == nil || !strings.Contains(err.Error(), "vm-u1 has claimed") {
		t.Errorf("error %v", err)
	}
}

// While it is not known which rule holds for what runs, its domain is kept for it.
func TestUndecidedLauncherKeepsItsDomain(t *testing.T) {
	withRun(t, policy.Enforce, func(t *testing.T, n *node) {
		known := &accounts{}
		n.Accounts = known
		pod, late := newPod("u1", domain("vms-1")), newPod("u2", domain("vms-1"))
		pod.Namespace = "accounts"
		n.synchronize(t, []*nri.PodSandbox{pod}, []*nri.Container{n.running(pod, 100, 0)})
		if l := n.launcher(t, pod); !l.Undecided || l.Domain != "vms-1" {
			t.Errorf("launcher %+v", l)
		}
		if _, err := n.create(late, newContainer(late, "compute")); err == nil || !strings.Contains(err.Error(), "accounts/vm-u1 has claimed") {
			t.Errorf("error %v", err)
		}
		known.Store("u1", "default") // which no rule lets have it
		time.Sleep(secondLook)
		synctest.Wait()
		if l := n.launcher(t, pod); l.Undecided || l.Domain != "" {
			t.Errorf("launcher %+v", l)
		}
		_, err := n.create(late, newContainer(late, "compute"))
		must(t, err)
	})
}

// The refusal that the documentation shows is the one that users get.
func TestDocumentedDomainRefusal(t *testing.T) {
	d := plugin.Decide(parsePolicy(t, policy.Enforce), claimed(facts("trusted", domain("vms-1"))))
	_, shown, _ := strings.Cut(d.Refusal.Message, ": ")
	if !strings.Contains(readDoc(t, "docs", "annotations.md"), "\n    "+shown+"\n") {
		t.Errorf("the documentation does not show\n%s", shown)
	}
}
