package lifecycle_test

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle"
)

// registryModel is what the registry should be, in the simplest way: a map that
// nothing is indexed in or counted beside.
type registryModel struct {
	registry *lifecycle.Registry
	model    map[string]modelLauncher // by pod UID: each has one launcher
	serial   int
}

type modelLauncher struct {
	id, sandbox string
	state       agentapi.State
	demand      lifecycle.Limit
}

func (m modelLauncher) holds() bool {
	return m.state != agentapi.StateStopped && m.state != agentapi.StateRefused
}

func TestRegistryProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &registryModel{registry: lifecycle.NewRegistry(), model: map[string]modelLauncher{}}
		t.Repeat(map[string]func(*rapid.T){
			"put":            m.put,
			"enter":          m.enter,
			"remove":         m.remove,
			"refuse":         m.refuse,
			"drop":           m.drop,
			"demand":         m.demand,
			"stop sandbox":   m.stopSandbox,
			"remove sandbox": m.removeSandbox,
			"":               m.check,
		})
	})
}

func drawPod(t *rapid.T) string { return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "pod") }

func (m *registryModel) put(t *rapid.T) {
	uid := drawPod(t)
	m.serial++
	l := modelLauncher{
		id:      fmt.Sprintf("id-%d", m.serial),
		sandbox: uid + rapid.SampledFrom([]string{"-1", "-2"}).Draw(t, "sandbox"),
		state:   rapid.SampledFrom([]agentapi.State{agentapi.StateCreating, agentapi.StateRunning, agentapi.StateRefused}).Draw(t, "state"),
		demand:  drawDemand(t),
	}
	put := newLauncher(uid, l.id, l.state, l.demand)
	put.SandboxID = l.sandbox
	m.registry.Put(put)
	m.model[uid] = l
}

// drawContainer returns an ID that is there, or was, or never.
func (m *registryModel) drawContainer(t *rapid.T) string {
	return fmt.Sprintf("id-%d", rapid.IntRange(0, m.serial+1).Draw(t, "container"))
}

func (m *registryModel) enter(t *rapid.T) {
	id := m.drawContainer(t)
	state := rapid.SampledFrom([]agentapi.State{agentapi.StateCreated, agentapi.StateRunning, agentapi.StateStopped}).Draw(t, "state")
	m.registry.Enter(id, state, 1)
	for uid, l := range m.model {
		if l.id == id && l.state != agentapi.StateRefused {
			l.state = state
			m.model[uid] = l
		}
	}
}

func (m *registryModel) remove(t *rapid.T) {
	id := m.drawContainer(t)
	m.registry.RemoveContainer(id)
	maps.DeleteFunc(m.model, func(_ string, l modelLauncher) bool { return l.id == id && l.state != agentapi.StateRefused })
}

func drawDemand(t *rapid.T) lifecycle.Limit {
	some := rapid.Map(rapid.Uint64Range(0, 1<<40), func(n uint64) lifecycle.Limit { return lifecycle.Limit(n) })
	return rapid.OneOf(some, rapid.Just(lifecycle.Unlimited), rapid.Just(lifecycle.Limit(math.MaxInt64))).Draw(t, "demand")
}

// refuse takes back what a launcher was given, so it demands 0 from then on.
func (m *registryModel) refuse(t *rapid.T) {
	id := m.drawContainer(t)
	m.registry.Refuse(id, "because")
	for uid, l := range m.model {
		if l.id == id {
			l.state, l.demand = agentapi.StateRefused, 0
			m.model[uid] = l
		}
	}
}

// drop forgets a launcher that was looked at, unless it was put again meanwhile.
func (m *registryModel) drop(t *rapid.T) {
	uid := drawPod(t)
	l, ok := m.registry.Get(lifecycle.Key{PodUID: uid, Container: "compute"})
	if ok && rapid.Bool().Draw(t, "put again") {
		m.put(t)
	}
	now, there := m.model[uid]
	if m.registry.Drop(l) {
		delete(m.model, uid)
	} else if ok && there && now.id == l.Container.ID {
		t.Errorf("%s stays", uid)
	}
}

// demand changes what a running launcher counts for.
func (m *registryModel) demand(t *rapid.T) {
	id, demand := m.drawContainer(t), drawDemand(t)
	m.registry.Update(id, func(l *lifecycle.Launcher) { l.Demand = &demand })
	for uid, l := range m.model {
		if l.id == id {
			l.demand = demand
			m.model[uid] = l
		}
	}
}

func (m *registryModel) stopSandbox(t *rapid.T) {
	sandbox := drawPod(t) + "-1"
	m.registry.StopSandbox(sandbox)
	for uid, l := range m.model {
		if l.sandbox == sandbox && l.state != agentapi.StateRefused {
			l.state = agentapi.StateStopped
			m.model[uid] = l
		}
	}
}

func (m *registryModel) removeSandbox(t *rapid.T) {
	sandbox := drawPod(t) + "-1"
	m.registry.RemoveSandbox(sandbox)
	maps.DeleteFunc(m.model, func(_ string, l modelLauncher) bool { return l.sandbox == sandbox })
}

// account adds up, exactly, what launchers other than one hold.
func (m *registryModel) account(without string) agentapi.Account {
	sum, want := new(big.Int), agentapi.Account{Granted: math.MaxInt64}
	for uid, l := range m.model {
		switch {
		case uid == without || !l.holds():
		case l.demand == lifecycle.Unlimited:
			want.Unlimited++
		default:
			sum.Add(sum, new(big.Int).SetUint64(uint64(l.demand)))
		}
	}
	if sum.IsInt64() {
		want.Granted = sum.Int64()
	}
	return want
}

// check compares the registry with the model after every step.
func (m *registryModel) check(t *rapid.T) {
	want := map[string]modelLauncher{}
	for uid, l := range m.model {
		want[uid] = l
		if !m.registry.HasPod(uid) {
			t.Errorf("HasPod(%s) = false", uid)
		}
		if found, ok := m.registry.Find(l.id); !ok || found.Pod.UID != uid {
			t.Errorf("Find(%s) = %+v, %t", l.id, found, ok)
		}
	}
	got := map[string]modelLauncher{}
	for _, l := range m.registry.List() {
		demand := lifecycle.Limit(0)
		if l.Demand != nil {
			demand = *l.Demand
		}
		got[l.Pod.UID] = modelLauncher{l.Container.ID, l.SandboxID, l.State, demand}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(modelLauncher{})); diff != "" {
		t.Fatalf("registry (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(m.account(""), m.registry.Account()); diff != "" {
		t.Fatalf("account (-want +got):\n%s", diff)
	}
	key := lifecycle.Key{PodUID: "a", Container: "compute"}
	if diff := cmp.Diff(m.account("a"), m.registry.AccountWithout(key)); diff != "" {
		t.Fatalf("account without %v (-want +got):\n%s", key, diff)
	}
}
