package registry_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

const gi = 1 << 30

// newLauncher returns container compute of a pod with a state and a demand.
func newLauncher(
	uid, containerID string, state agentapi.State, demand host.Limit,
) registry.Launcher {
	return registry.Launcher{
		Launcher: agentapi.Launcher{
			Pod:       agentapi.PodRef{Namespace: "ns", Name: "pod-" + uid, UID: uid},
			Container: agentapi.ContainerRef{Name: "compute", ID: containerID},
			State:     state,
			Settings: []agentapi.Setting{{Name: agentapi.MemlockSetting,
				Requested: demand.String(), Status: agentapi.StatusPending}},
		},
		SandboxID: "sandbox-" + uid,
		Demand:    &demand,
	}
}

func granted(r *registry.Registry) int64 { return r.Account().Granted }

func TestRegistryRetryReplaces(t *testing.T) {
	r := registry.New()
	r.Put(newLauncher("a", "first", agentapi.StateCreating, 3*gi))
	r.Put(newLauncher("a", "second", agentapi.StateCreating, 2*gi))
	if granted(r) != 2*gi {
		t.Errorf("granted = %d, want 2Gi", granted(r))
	}
	// The registry ignores late events of the first attempt.
	if r.SetState("first", agentapi.StateStopped, 0) {
		t.Error("the replaced container was found")
	}
	r.RemoveContainer("first")
	if l, ok := r.Find("second"); !ok || l.State != agentapi.StateCreating {
		t.Errorf("Find = %+v, %v, want it still creating", l, ok)
	}
}

// A container starts again while a VM process of the previous one runs. Both stay until the VM
// process ends.
func TestRegistryKeepsLauncherBesideItsSuccessor(t *testing.T) {
	vms := []agentapi.VM{{PID: 7}}
	first := newLauncher("a", "first", agentapi.StateRunning, 3*gi)
	first.Domain = "vm-1"
	left := newLauncher("a", "first", agentapi.StateStopped, 3*gi)
	left.VMs, left.Domain = vms, "vm-1"
	second := newLauncher("a", "second", agentapi.StateCreating, 2*gi)
	for name, enter := range map[string]func(*registry.Registry){
		"known before": func(r *registry.Registry) {
			r.Put(first)
			r.Update("first", func(l *registry.Launcher) { l.VMs = vms })
			r.Put(second)
		},
		"found afterwards": func(r *registry.Registry) {
			r.Put(second)
			r.PutRemoved(left)
			r.PutRemoved(left)
		},
		"found before": func(r *registry.Registry) {
			r.PutRemoved(left)
			r.Put(second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := registry.New()
			enter(r)
			checkBoth(t, r, second.Key())
		})
	}
}

func checkBoth(t *testing.T, r *registry.Registry, key registry.Key) {
	t.Helper()
	list := r.List()
	if len(list) != 2 || list[0].Container.ID != "first" ||
		list[0].State != agentapi.StateStopped || list[1].Container.ID != "second" {
		t.Errorf("launchers %+v, want first, stopped, and second", list)
	}
	if l, _ := r.Get(key); l.Container.ID != "second" {
		t.Errorf("the latest container is %q", l.Container.ID)
	}
	if others := r.AccountWithout(key, "second").Granted; granted(r) != 5*gi || others != 3*gi {
		t.Errorf("granted %d, without the second %d, want 5Gi and 3Gi", granted(r), others)
	}
	if _, ok := r.Claimant(named("vm-1"), "b"); !ok {
		t.Error("another pod can claim the running domain")
	}
	r.RemoveContainer("first")
	r.RemoveSandbox("sandbox-a")
	if _, ok := r.Find("first"); !ok || !r.HasPod("a") {
		t.Error("the running launcher was removed with its pod")
	}
	r.Release("first")
	if _, ok := r.Find("first"); ok || granted(r) != 0 || r.HasPod("a") {
		t.Errorf("launchers after the last end: %+v, want none", r.List())
	}
}

func TestRegistryReturnsCopies(t *testing.T) {
	r := registry.New()
	r.Put(newLauncher("a", "1", agentapi.StateRunning, gi))
	l, _ := r.Find("1")
	l.Settings[0].Observed = "changed"
	r.List()[0].Settings[0].Observed = "changed"
	if l, _ := r.Get(l.Key()); l.Settings[0].Observed != "" {
		t.Error("a copy shares its settings with the registry")
	}
}

func TestRegistryRefusedStays(t *testing.T) {
	r := registry.New()
	r.Put(newLauncher("a", "1", agentapi.StateRefused, gi))
	r.SetState("1", agentapi.StateStopped, 0)
	r.RemoveContainer("1")
	if l, ok := r.Find("1"); !ok || l.State != agentapi.StateRefused {
		t.Errorf("Find = %+v, %v, want it refused", l, ok)
	}
	if granted(r) != 0 {
		t.Errorf("granted = %d for a refused launcher, want 0", granted(r))
	}
	r.RemoveSandbox("sandbox-a")
	if _, ok := r.Find("1"); ok {
		t.Error("a refused launcher is kept after its sandbox")
	}
}

func TestRegistryRefusesLater(t *testing.T) {
	r := registry.New()
	l := newLauncher("a", "1", agentapi.StateCreating, gi)
	l.Settings = []agentapi.Setting{{Name: agentapi.MemlockSetting, Requested: "1Gi", Given: "1Gi",
		Status: agentapi.StatusPending}}
	r.Put(l)
	r.Refuse("1", "no directory")
	got, _ := r.Find("1")
	want := []agentapi.Setting{{Name: agentapi.MemlockSetting, Requested: "1Gi",
		Status: agentapi.StatusRefused}}
	if diff := cmp.Diff(want, got.Settings); diff != "" || got.State != agentapi.StateRefused ||
		got.Demand != nil {
		t.Errorf("launcher = %+v, want it refused, settings (-want +got):\n%s", got, diff)
	}
}

func TestAccountWithListedLaunchers(t *testing.T) {
	r := registry.New()
	r.Put(newLauncher("entered", "1", agentapi.StateRunning, gi))
	r.Put(newLauncher("older", "2", agentapi.StateStopped, gi))
	since := r.Generation()
	r.Put(newLauncher("newer", "3", agentapi.StateStopped, gi))
	listed := []registry.Launcher{
		newLauncher("entered", "1", agentapi.StateRunning, 100*gi),
		newLauncher("older", "20", agentapi.StateRunning, 2*gi), // from the agent's absence
		newLauncher("newer", "0", agentapi.StateRunning, 100*gi),
		newLauncher("new", "4", agentapi.StateRunning, 4*gi),
		newLauncher("asks", "5", agentapi.StateRunning, 100*gi),
	}
	without := registry.Key{PodUID: "asks", Container: "compute"}
	if a := r.AccountWith(listed, since, without, "50"); a.Granted != 7*gi {
		t.Errorf("account = %+v, want 7Gi", a)
	}
	for _, test := range []struct {
		uid, id string
		want    bool
	}{{"newer", "0", true}, {"newer", "3", false}, {"older", "20", false}, {"new", "4", false}} {
		if got := r.Replaced(registry.Key{PodUID: test.uid, Container: "compute"}, test.id,
			since); got != test.want {
			t.Errorf("Replaced(%s, %s) = %t, want %t", test.uid, test.id, got, test.want)
		}
	}
}

func TestSinceIsTheStartOfTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry.New()
		began := time.Now()
		r.Put(newLauncher("a", "1", agentapi.StateCreated, gi))
		time.Sleep(time.Minute)
		r.SetState("1", agentapi.StateCreated, 7)
		if l, _ := r.Find("1"); !l.Since.Equal(began) || l.Container.PID != 7 {
			t.Errorf("entering the same state: %+v, want since %s and process 7", l, began)
		}
		r.SetState("1", agentapi.StateRunning, 0)
		if l, _ := r.Find("1"); !l.Since.Equal(began.Add(time.Minute)) || l.Container.PID != 7 {
			t.Errorf("entering the next state: %+v, want since a minute later and process 7", l)
		}
	})
}

func TestAccount(t *testing.T) {
	const most = 1<<63 - 1
	tests := map[string]struct {
		demands []host.Limit
		want    agentapi.Account
	}{
		"no launcher": {nil, agentapi.Account{}},
		"sum":         {[]host.Limit{gi, 2 * gi}, agentapi.Account{Granted: 3 * gi, Unbounded: 2}},
		"unlimited is counted": {[]host.Limit{gi, host.Unlimited, host.Unlimited},
			agentapi.Account{Granted: gi, Unlimited: 2, Unbounded: 3}},
		"the sum does not wrap": {[]host.Limit{most, most},
			agentapi.Account{Granted: most, Unbounded: 2}},
		"nor with a large limit": {[]host.Limit{1 << 63, gi},
			agentapi.Account{Granted: most, Unbounded: 2}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := registry.New()
			for i, d := range test.demands {
				id := string(rune('a' + i))
				r.Put(newLauncher(id, id, agentapi.StateRunning, d))
			}
			if diff := cmp.Diff(test.want, r.Account()); diff != "" {
				t.Errorf("account (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	r := registry.New()
	r.Put(newLauncher("listed", "1", agentapi.StateRunning, gi))
	r.Put(newLauncher("lost", "2", agentapi.StateRunning, gi))
	r.Put(newLauncher("over", "3", agentapi.StateStopped, gi))
	r.Put(newLauncher("stopped", "4", agentapi.StateStopped, gi))
	r.Put(newLauncher("event-later", "5", agentapi.StateCreating, gi))
	since := r.Generation()
	r.Put(newLauncher("later", "6", agentapi.StateCreating, gi))
	r.SetState("5", agentapi.StateRunning, 50)

	var got []string
	for _, l := range r.Missing(since, map[string]bool{"1": true},
		map[string]bool{"sandbox-listed": true, "sandbox-stopped": true}) {
		got = append(got, l.Pod.UID)
		if l.Pod.UID == "lost" {
			r.SetState("2", agentapi.StateRunning, 20) // an event in the meantime
			if r.Drop(l) {
				t.Error("dropped a launcher with an event in the meantime")
			}
		} else if !r.Drop(l) {
			t.Errorf("%s was not dropped", l.Pod.UID)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"lost", "over"}, got); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}

func TestOldListDoesNotRevertEvents(t *testing.T) {
	r := registry.New()
	r.Put(newLauncher("a", "1", agentapi.StateCreated, gi))
	since := r.Generation()
	r.SetListedState(since, "1", agentapi.StateRunning, 10)
	if l, _ := r.Find("1"); l.State != agentapi.StateRunning || l.Container.PID != 10 {
		t.Errorf("after the list: %+v, want it running as process 10", l)
	}
	r.SetState("1", agentapi.StateStopped, 0)
	r.SetListedState(since, "1", agentapi.StateRunning, 10)
	if l, _ := r.Find("1"); l.State != agentapi.StateStopped {
		t.Errorf("an older list changed the state to %s", l.State)
	}
}
