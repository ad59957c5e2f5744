package plugin_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// accounts are service accounts that become known over time.
type accounts struct{ sync.Map }

func (a *accounts) ServiceAccount(podUID string) (string, bool) {
	name, ok := a.Load(podUID)
	if !ok {
		return "", false
	}
	return name.(string), true
}

// withLimit sets a limit in the container's spec, as an earlier agent would. 0 means none.
func withLimit(ctr *nri.Container, l uint64) *nri.Container {
	if l == 0 {
		return ctr
	}
	ctr.Rlimits = []*nri.POSIXRlimit{{Type: "RLIMIT_MEMLOCK", Soft: l, Hard: l}}
	return ctr
}

// running returns a running container of the pod with a limit in its spec.
func (n *node) running(pod *nri.PodSandbox, pid int, l uint64) *nri.Container {
	ctr := withLimit(newContainer(pod, "compute"), l)
	n.start(ctr, pid, host.Rlimit{Soft: host.Limit(l), Hard: host.Limit(l)})
	return ctr
}

// A restarted agent may know the runtime's containers before the pods' service accounts.
func TestExistingLauncherOfUnknownServiceAccountIsUndecided(t *testing.T) {
	for account, want := range map[string]struct {
		due    host.Limit // 0: none
		events []agentapi.Reason
	}{
		"vm-1":    {5 * gi, nil},
		"default": {0, []agentapi.Reason{agentapi.ReasonMemlockRefused}},
	} {
		withRun(t, policy.Enforce, func(t *testing.T, n *node) {
			known := &accounts{}
			n.Accounts = known
			pod := newPod("u1", decidetest.VFIO())
			pod.Namespace = "accounts"
			n.synchronize(t, []*nri.PodSandbox{pod}, []*nri.Container{n.running(pod, 100, 5*gi)})
			l := n.launcher(t, pod)
			if !l.Undecided || l.Refusal != "" || l.Settings[0].Status != agentapi.StatusUnknown ||
				l.Given.Memlock != nil {
				t.Errorf("launcher = %+v, want it undecided", l)
			}
			if len(n.recorder.Events()) != 0 || n.registry.Account().Granted != 5*gi {
				t.Errorf("events = %v, account = %+v, want none and 5Gi", n.recorder.Events(),
					n.registry.Account())
			}
			time.Sleep(secondScanDelay) // some rounds without an answer
			known.Store("u1", account)
			time.Sleep(secondScanDelay)
			synctest.Wait()
			l = n.launcher(t, pod)
			if l.Undecided || l.State != agentapi.StateRunning || l.Container.PID != 100 {
				t.Errorf("launcher = %+v, want it decided on, and running as before", l)
			}
			if l.Facts.ServiceAccount == nil || *l.Facts.ServiceAccount != account {
				t.Errorf("facts %+v, want the service account %s", l.Facts, account)
			}
			if due := l.Given.Memlock; (due != nil) != (want.due != 0) || due != nil &&
				*due != want.due {
				t.Errorf("account %s: due %v, want %v", account, due, want.due)
			}
			if diff := cmp.Diff(want.events, n.recorder.Reasons()); diff != "" {
				t.Errorf("account %s: events (-want +got):\n%s", account, diff)
			}
			if a := n.registry.Account(); a.Granted != 5*gi {
				t.Errorf("account %s: %+v, want 5Gi: they run", account, a)
			}
		})
	}
}

func TestNewLauncherOfUnknownServiceAccountIsRefused(t *testing.T) {
	n := newNode(t, policy.Enforce)
	pod := newPod("u1", decidetest.VFIO())
	pod.Namespace = "accounts"
	if _, err := n.create(pod, newContainer(pod, "compute")); err == nil ||
		!strings.Contains(err.Error(), "kubelet tries again") {
		t.Errorf("error = %v, want a refusal", err)
	}
	if a := n.registry.Account(); a.Granted != 0 {
		t.Errorf("account = %+v, want nothing", a)
	}
}

func TestExistingLaunchersCountInTheAccount(t *testing.T) {
	for name, test := range map[string]struct {
		namespace string
		requests  map[string]string
		spec      uint64
		granted   int64
		unlimited int
		due       bool
		memory    int64 // limit of the container; 0: none
	}{
		"unchanged": {"trusted", decidetest.Lock("4Gi"), 4 * gi,
			4 * gi, 0, true, 0},
		"beyond the node's ceiling": {"trusted", decidetest.Lock("30Gi"), 30 * gi,
			30 * gi, 0, true, 0},
		"beyond its rule": {"tenant-a", decidetest.Lock("17Gi"), 17 * gi,
			17 * gi, 0, false, 0},
		"not allowed, nothing in spec": {"nowhere", decidetest.Lock("1000Gi"), 0, 0, 0, false, 0},
		"no rule matches": {"nowhere", decidetest.Lock("4Gi"), 4 * gi,
			4 * gi, 0, false, 0},
		"the runtime gave more": {"trusted", decidetest.Lock("4Gi"), 6 * gi,
			6 * gi, 0, true, 0},
		"malformed annotations": {"trusted",
			map[string]string{api.GuestMemoryKey: "lots"}, 3 * gi, 3 * gi, 0, false, 0},
		"no request": {"trusted", nil, 3 * gi, 0, 0, false, 0},
		"within its memory limit": {"trusted", decidetest.Lock("4Gi"), 4 * gi,
			2 * gi, 0, true, 2 * gi},
		"unlimited, allowed": {"trusted", decidetest.UnlimitedLock(), 1<<64 - 1,
			2 * gi, 1, true, 2 * gi},
		"unlimited and unbounded": {"trusted", decidetest.UnlimitedLock(), 1<<64 - 1,
			0, 1, false, 0},
		"unlimited, not allowed": {"tenant-a", decidetest.UnlimitedLock(), 1<<64 - 1,
			0, 1, false, 0},
		"unlimited, not allowed, not set": {"tenant-a", decidetest.UnlimitedLock(), 0,
			0, 0, false, 0},
		"unlimited, not allowed, set lower": {"tenant-a", decidetest.UnlimitedLock(), 2 * gi,
			2 * gi, 0, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			withRun(t, policy.Enforce, func(t *testing.T, n *node) {
				full := newPod("full", decidetest.Lock("32Gi"))
				fuller := newPod("fuller", decidetest.Lock("32Gi"))
				for _, pod := range []*nri.PodSandbox{full, fuller} {
					_, err := n.create(pod, newContainer(pod, "compute"))
					must(t, err)
				}
				pod := newPod("u1", test.requests)
				pod.Namespace = test.namespace
				n.synchronize(t, []*nri.PodSandbox{pod, full, fuller},
					[]*nri.Container{withMemory(n.running(pod, 100, test.spec), test.memory)})
				a := n.registry.Account()
				if a.Granted != 64*gi+test.granted || a.Unlimited != test.unlimited {
					t.Errorf("account = %+v, want %s more than 64Gi and %d unlimited", a,
						api.Bytes(test.granted), test.unlimited)
				}
				if l := n.launcher(t, pod); (l.Given.Memlock != nil) != test.due {
					t.Errorf("launcher = %+v, want it held to a lock: %t", l, test.due)
				}
			})
		})
	}
}

// The node's maximum holds from the moment of the list, before and after its reconciliation.
func TestNodeCeilingHoldsWhileAListIsPending(t *testing.T) {
	n := newNode(t, policy.Enforce) // Run does not work
	var pods []*nri.PodSandbox
	var ctrs []*nri.Container
	for i, uid := range []string{"u1", "u2", "again"} {
		pod := newPod(uid, decidetest.Lock("20Gi"))
		pods, ctrs = append(pods, pod), append(ctrs, n.running(pod, 100+i, 20*gi))
	}
	stopped := newPod("stopped", decidetest.Lock("30Gi"))
	exited := newContainer(stopped, "compute")
	exited.State = nri.ContainerState_CONTAINER_STOPPED
	_, err := n.Synchronize(context.Background(), append(pods, stopped), append(ctrs, exited))
	must(t, err)
	if n.Reconciled() {
		t.Error("the list counts as taken over")
	}
	late := newPod("late", decidetest.Lock("5Gi"))
	if _, err := n.create(late, newContainer(late, "compute")); err == nil ||
		!strings.Contains(err.Error(), "others have 60Gi") {
		t.Fatalf("error = %v, want one about the node's ceiling", err)
	}
	// A listed and recreated launcher counts once. So does one with an event since the list.
	again := newContainer(pods[2], "compute")
	again.Id = "another"
	_, err = n.create(pods[2], again)
	must(t, err)
	must(t, n.PostStartContainer(context.Background(), pods[0], ctrs[0]))
	small := newPod("small", decidetest.Lock("4Gi"))
	_, err = n.create(small, newContainer(small, "compute"))
	must(t, err)
	if _, err := n.create(late, newContainer(late, "compute")); err == nil ||
		!strings.Contains(err.Error(), "others have 64Gi") {
		t.Fatalf("error = %v, want one about the node's ceiling", err)
	}
}

func TestReconciledAfterTheFirstList(t *testing.T) {
	withRun(t, policy.Enforce, func(t *testing.T, n *node) {
		if n.Reconciled() {
			t.Error("reconciled before any list")
		}
		n.synchronize(t, nil, nil)
		if !n.Reconciled() {
			t.Error("not reconciled with an empty list")
		}
	})
}

func TestReplacedContainersStayReplaced(t *testing.T) {
	ctx := context.Background()
	withRun(t, policy.Enforce, func(t *testing.T, n *node) {
		pod := newPod("u1", decidetest.VFIO())
		old, renewed := n.running(pod, 100, 5*gi), newContainer(pod, "compute")
		renewed.Id = "renewed"
		_, err := n.Synchronize(ctx, []*nri.PodSandbox{pod}, []*nri.Container{old})
		must(t, err)
		_, err = n.create(pod, renewed)
		must(t, err)
		synctest.Wait()
		if l := n.launcher(t, pod); l.Container.ID != "renewed" {
			t.Errorf("launcher = %+v, want the one that was created after the list", l)
		}
		must(t, n.PostStartContainer(ctx, pod, old))
		must(t, n.PostUpdateContainer(ctx, pod, old))
		if l := n.launcher(t, pod); l.Container.ID != "renewed" ||
			l.State != agentapi.StateCreating {
			t.Errorf("launcher = %+v, want it as it was", l)
		}
	})
}

func TestListReplacesOlderContainers(t *testing.T) {
	withRun(t, policy.Enforce, func(t *testing.T, n *node) {
		pod := newPod("u1", decidetest.VFIO())
		_, err := n.create(pod, newContainer(pod, "compute"))
		must(t, err)
		for i, event := range []func(*nri.Container){
			func(ctr *nri.Container) {
				n.synchronize(t, []*nri.PodSandbox{pod}, []*nri.Container{ctr})
			},
			func(ctr *nri.Container) {
				n.synchronize(t, []*nri.PodSandbox{pod}, nil)
				must(t, n.PostStartContainer(context.Background(), pod, ctr))
			},
		} {
			renewed := newContainer(pod, "compute")
			renewed.Id = []string{"second", "third"}[i]
			n.start(renewed, 200+i, host.Rlimit{})
			event(renewed)
			if l := n.launcher(t, pod); l.Container.ID != renewed.GetId() {
				t.Errorf("launcher = %+v, want container %s", l, renewed.GetId())
			}
		}
	})
}
