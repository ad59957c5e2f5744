package plugin_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
)

func TestDomainHasOneClaimant(t *testing.T) {
	n := newNode(t, policy.Enforce)
	first, second := newPod("u1", decidetest.Domain(decidetest.DomainUUID)),
		newPod("u2", decidetest.Domain(decidetest.DomainUUID))
	_, err := n.create(first, newContainer(first, "compute"))
	must(t, err)
	if l := n.launcher(t, first); l.Domain != decidetest.DomainUUID {
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

// alias knows two names of one domain.
type alias [2]string

func (a alias) Same(x, y string) bool { return a == alias{x, y} || a == alias{y, x} }

// One pod declares the domain by name, the other by UUID.
func TestDomainByNameAndUUID(t *testing.T) {
	n := newNode(t, policy.Enforce)
	first, second := newPod("u1", decidetest.Domain("vms-1")),
		newPod("u2", decidetest.Domain(decidetest.DomainUUID))
	_, err := n.create(first, newContainer(first, "compute"))
	must(t, err)
	n.Domains = alias{"vms-1", decidetest.DomainUUID}
	_, err = n.create(second, newContainer(second, "compute"))
	if err == nil || !strings.Contains(err.Error(), "pod trusted/vm-u1 has claimed that domain") {
		t.Errorf("error %v, want that the first pod has it", err)
	}
	n.Domains = alias{"another", decidetest.DomainUUID}
	_, err = n.create(second, newContainer(second, "compute"))
	must(t, err)
}

// The order of the list does not matter.
func TestOlderPodKeepsTheDomain(t *testing.T) {
	withRun(t, policy.Enforce, func(t *testing.T, n *node) {
		older, newer := newPod("older", decidetest.Domain("vms-1")),
			newPod("newer", decidetest.Domain("vms-1"))
		early, late := n.running(older, 100, 0), n.running(newer, 101, 0)
		early.CreatedAt, late.CreatedAt = 1, 2
		n.synchronize(t, []*nri.PodSandbox{newer, older}, []*nri.Container{late, early})
		if l := n.launcher(t, older); l.Domain != "vms-1" || l.Refusal != "" {
			t.Errorf("older: %+v", l)
		}
		if l := n.launcher(t, newer); l.Domain != "" ||
			!strings.Contains(l.Refusal, "pod trusted/vm-older has claimed") {
			t.Errorf("newer: %+v", l)
		}
		events := n.recorder.Events()
		if len(events) != 1 || events[0].Reason != agentapi.ReasonDomainClaimed ||
			!strings.Contains(events[0].Message, "it runs although") {
			t.Errorf("events %+v", events)
		}
	})
}

func TestPendingListKeepsTheDomain(t *testing.T) {
	n := newNode(t, policy.Enforce) // Run does not work
	listed, late := newPod("u1", decidetest.Domain("vms-1")),
		newPod("u2", decidetest.Domain("vms-1"))
	_, err := n.Synchronize(t.Context(), []*nri.PodSandbox{listed},
		[]*nri.Container{n.running(listed, 100, 0)})
	must(t, err)
	if _, err := n.create(late, newContainer(late, "compute")); err == nil ||
		!strings.Contains(err.Error(), "vm-u1 has claimed") {
		t.Errorf("error %v", err)
	}
}

// An undecided launcher keeps its claim.
func TestUndecidedLauncherKeepsItsDomain(t *testing.T) {
	withRun(t, policy.Enforce, func(t *testing.T, n *node) {
		known := &accounts{}
		n.Accounts = known
		pod, late := newPod("u1", decidetest.Domain("vms-1")),
			newPod("u2", decidetest.Domain("vms-1"))
		pod.Namespace = "accounts"
		n.synchronize(t, []*nri.PodSandbox{pod}, []*nri.Container{n.running(pod, 100, 0)})
		if l := n.launcher(t, pod); !l.Undecided || l.Domain != "vms-1" {
			t.Errorf("launcher %+v", l)
		}
		if _, err := n.create(late, newContainer(late, "compute")); err == nil ||
			!strings.Contains(err.Error(), "accounts/vm-u1 has claimed") {
			t.Errorf("error %v", err)
		}
		known.Store("u1", "default") // which no rule lets have it
		time.Sleep(secondScanDelay)
		synctest.Wait()
		if l := n.launcher(t, pod); l.Undecided || l.Domain != "" {
			t.Errorf("launcher %+v", l)
		}
		_, err := n.create(late, newContainer(late, "compute"))
		must(t, err)
	})
}
