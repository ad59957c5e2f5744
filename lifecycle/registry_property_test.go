package lifecycle_test

import (
	"fmt"
	"maps"
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
		demand:  lifecycle.Limit(rapid.Uint64Range(0, 1<<40).Draw(t, "demand")),
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

// check compares the registry with the model after every step.
func (m *registryModel) check(t *rapid.T) {
	var sum int64
	want := map[string]modelLauncher{}
	for uid, l := range m.model {
		want[uid] = l
		if l.holds() {
			sum += int64(l.demand)
		}
		if !m.registry.HasPod(uid) {
			t.Errorf("HasPod(%s) = false", uid)
		}
	}
	got := map[string]modelLauncher{}
	for _, l := range m.registry.List() {
		got[l.Pod.UID] = modelLauncher{l.Container.ID, l.SandboxID, l.State, *l.Demand}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(modelLauncher{})); diff != "" {
		t.Fatalf("registry (-want +got):\n%s", diff)
	}
	if a := m.registry.Account(); a.Granted != sum {
		t.Fatalf("granted = %d, want %d", a.Granted, sum)
	}
	key := lifecycle.Key{PodUID: "a", Container: "compute"}
	if l, ok := m.model["a"]; ok && l.holds() {
		sum -= int64(l.demand)
	}
	if a := m.registry.AccountWithout(key); a.Granted != sum {
		t.Fatalf("granted without %v = %d, want %d", key, a.Granted, sum)
	}
}
