package registry_test

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// registryModel is a simple model of the registry: a map without indexes and sums.
type registryModel struct {
	registry *registry.Registry
	model    map[string]modelLauncher // by container ID: each pod has one container
	serial   int
}

type modelLauncher struct {
	uid, sandbox string
	state        agentapi.State
	demand       host.Limit
	free         bool  // without a demand
	memory       int64 // memory limit; 0: none
	vm           bool  // a VM process remains
	removed      bool  // by the runtime, or replaced
	latest       bool  // latest container of its pod
}

func (m modelLauncher) holds() bool {
	return m.vm || m.state != agentapi.StateStopped && m.state != agentapi.StateRefused
}

func TestRegistryProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &registryModel{registry: registry.New(), model: map[string]modelLauncher{}}
		t.Repeat(map[string]func(*rapid.T){
			"put":            m.put,
			"put missing":    m.putMissing,
			"vms":            m.vms,
			"release":        m.release,
			"enter":          m.enter,
			"remove":         m.remove,
			"refuse":         m.refuse,
			"drop":           m.drop,
			"demand":         m.demand,
			"resize":         m.resize,
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
		uid:     uid,
		sandbox: uid + rapid.SampledFrom([]string{"-1", "-2"}).Draw(t, "sandbox"),
		state: rapid.SampledFrom([]agentapi.State{agentapi.StateCreating, agentapi.StateRunning,
			agentapi.StateRefused}).Draw(t, "state"),
		demand: drawDemand(t),
		memory: drawMemory(t),
		latest: true,
	}
	id := fmt.Sprintf("id-%d", m.serial)
	put := newLauncher(uid, id, l.state, l.demand)
	put.SandboxID, put.MemoryLimit, put.HugePages = l.sandbox, l.memory, hugePages
	m.registry.Put(put)
	if old, ok := m.latest(uid); ok {
		was := m.model[old]
		was.latest = false
		m.take(old, was)
	}
	m.model[id] = l
}

// putMissing calls PutRemoved with a container that the registry may have already.
func (m *registryModel) putMissing(t *rapid.T) {
	uid, id := drawPod(t), m.drawContainer(t)
	known, ok := m.model[id]
	if ok {
		uid = known.uid
	} else {
		m.serial++
		id = fmt.Sprintf("id-%d", m.serial)
	}
	l := modelLauncher{uid: uid, sandbox: uid + "-1", state: agentapi.StateStopped,
		demand: drawDemand(t), memory: drawMemory(t), vm: true}
	put := newLauncher(uid, id, l.state, l.demand)
	put.SandboxID, put.VMs = l.sandbox, make([]agentapi.VM, 1)
	put.MemoryLimit, put.HugePages = l.memory, hugePages
	m.registry.PutRemoved(put)
	if !ok {
		_, beside := m.latest(uid)
		l.latest, l.removed = !beside, true
		m.model[id] = l
	}
}

// latest returns the ID of the latest container of a pod.
func (m *registryModel) latest(uid string) (id string, ok bool) {
	for id, l := range m.model {
		if l.uid == uid && l.latest {
			return id, true
		}
	}
	return "", false
}

// take forgets a container, or keeps it while a VM process remains.
func (m *registryModel) take(id string, l modelLauncher) {
	if !l.vm {
		delete(m.model, id)
		return
	}
	l.removed, l.state = true, agentapi.StateStopped
	m.model[id] = l
}

// drawContainer returns a current, former or unknown ID.
func (m *registryModel) drawContainer(t *rapid.T) string {
	return fmt.Sprintf("id-%d", rapid.IntRange(0, m.serial+1).Draw(t, "container"))
}

// change changes a container in the model.
func (m *registryModel) change(id string, change func(*modelLauncher)) {
	if l, ok := m.model[id]; ok {
		change(&l)
		m.model[id] = l
	}
}

// vms starts or ends the VM process of a container.
func (m *registryModel) vms(t *rapid.T) {
	id, some := m.drawContainer(t), rapid.Bool().Draw(t, "some")
	var vms []agentapi.VM
	if some {
		vms = make([]agentapi.VM, 1)
	}
	m.registry.Update(id, func(l *registry.Launcher) { l.VMs = vms })
	m.change(id, func(l *modelLauncher) { l.vm = some })
}

func (m *registryModel) release(t *rapid.T) {
	id := m.drawContainer(t)
	m.registry.Release(id)
	if m.model[id].removed {
		delete(m.model, id)
	}
	m.change(id, func(l *modelLauncher) { l.vm = false })
}

func (m *registryModel) enter(t *rapid.T) {
	id := m.drawContainer(t)
	state := rapid.SampledFrom([]agentapi.State{agentapi.StateCreated, agentapi.StateRunning,
		agentapi.StateStopped}).Draw(t, "state")
	m.registry.SetState(id, state, 1)
	m.change(id, func(l *modelLauncher) {
		if l.state != agentapi.StateRefused {
			l.state = state
		}
	})
}

func (m *registryModel) remove(t *rapid.T) {
	id := m.drawContainer(t)
	m.registry.RemoveContainer(id)
	if l, ok := m.model[id]; ok && l.state != agentapi.StateRefused {
		m.take(id, l)
	}
}

func drawDemand(t *rapid.T) host.Limit {
	some := rapid.Map(rapid.Uint64Range(0, 1<<40), func(n uint64) host.Limit {
		return host.Limit(n)
	})
	return rapid.OneOf(some, rapid.Just(host.Unlimited),
		rapid.Just(host.Limit(math.MaxInt64))).Draw(t, "demand")
}

// hugePages is the huge-page limit of each pod.
const hugePages = 3

func drawMemory(t *rapid.T) int64 {
	return rapid.SampledFrom([]int64{0, 1, 1 << 40}).Draw(t, "memory limit")
}

// resize changes the memory limit of a running launcher.
func (m *registryModel) resize(t *rapid.T) {
	id, memory := m.drawContainer(t), drawMemory(t)
	m.registry.Update(id, func(l *registry.Launcher) { l.MemoryLimit = memory })
	m.change(id, func(l *modelLauncher) { l.memory = memory })
}

// refuse removes a launcher's granted settings, so it demands 0.
func (m *registryModel) refuse(t *rapid.T) {
	id := m.drawContainer(t)
	m.registry.Refuse(id, "because")
	m.change(id, func(l *modelLauncher) {
		l.state, l.demand, l.free = agentapi.StateRefused, 0, true
	})
}

// drop forgets a launcher, unless it was put again meanwhile.
func (m *registryModel) drop(t *rapid.T) {
	uid := drawPod(t)
	l, ok := m.registry.Get(registry.Key{PodUID: uid, Container: "compute"})
	if ok && rapid.Bool().Draw(t, "put again") {
		m.put(t)
	}
	now, there := m.latest(uid)
	if m.registry.Drop(l) {
		m.take(now, m.model[now])
	} else if ok && there && now == l.Container.ID {
		t.Errorf("Drop kept the launcher of pod %s", uid)
	}
}

// demand changes the demand of a running launcher.
func (m *registryModel) demand(t *rapid.T) {
	id, demand := m.drawContainer(t), drawDemand(t)
	m.registry.Update(id, func(l *registry.Launcher) { l.Demand = &demand })
	m.change(id, func(l *modelLauncher) { l.demand, l.free = demand, false })
}

func (m *registryModel) stopSandbox(t *rapid.T) {
	sandbox := drawPod(t) + "-1"
	m.registry.StopSandbox(sandbox)
	for id, l := range m.model {
		if l.sandbox == sandbox && l.state != agentapi.StateRefused {
			m.change(id, func(l *modelLauncher) { l.state = agentapi.StateStopped })
		}
	}
}

func (m *registryModel) removeSandbox(t *rapid.T) {
	sandbox := drawPod(t) + "-1"
	m.registry.RemoveSandbox(sandbox)
	for id, l := range maps.Clone(m.model) {
		if l.sandbox == sandbox {
			m.take(id, l)
		}
	}
}

// account adds up the demands of all launchers except one container.
func (m *registryModel) account(without string) agentapi.Account {
	sum, want := new(big.Int), agentapi.Account{Granted: math.MaxInt64}
	for id, l := range m.model {
		switch {
		case id == without || !l.holds() || l.free:
			continue
		case l.memory > 0:
			sum.Add(sum, big.NewInt(l.memory))
			if l.latest || !m.latestIsBounded(l.uid) {
				sum.Add(sum, big.NewInt(hugePages))
			}
		case l.demand != host.Unlimited:
			sum.Add(sum, new(big.Int).SetUint64(uint64(l.demand)))
		}
		if l.demand == host.Unlimited {
			want.Unlimited++
		}
		if l.memory == 0 {
			want.Unbounded++
		}
	}
	if sum.IsInt64() {
		want.Granted = sum.Int64()
	}
	return want
}

// latestIsBounded reports whether the latest container of a pod has the pod's huge pages.
func (m *registryModel) latestIsBounded(uid string) bool {
	id, ok := m.latest(uid)
	l := m.model[id]
	return ok && l.holds() && !l.free && l.memory > 0
}

// check compares the registry with the model after every step.
func (m *registryModel) check(t *rapid.T) {
	for id, l := range m.model {
		if !m.registry.HasPod(l.uid) {
			t.Errorf("HasPod(%s) = false", l.uid)
		}
		if found, ok := m.registry.Find(id); !ok || found.Pod.UID != l.uid {
			t.Errorf("Find(%s) = %+v, %t", id, found, ok)
		}
	}
	if diff := cmp.Diff(m.model, m.shown(), cmp.AllowUnexported(modelLauncher{})); diff != "" {
		t.Fatalf("registry (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(m.account(""), m.registry.Account()); diff != "" {
		t.Fatalf("account (-want +got):\n%s", diff)
	}
	for id, l := range m.model {
		m.checkAccountWithout(t, registry.Key{PodUID: l.uid, Container: "compute"}, id, id)
	}
	replaced, _ := m.latest("a")
	if m.model[replaced].vm {
		replaced = ""
	}
	m.checkAccountWithout(t, registry.Key{PodUID: "a", Container: "compute"}, "created", replaced)
}

func (m *registryModel) checkAccountWithout(t *rapid.T, key registry.Key, id, excluded string) {
	if diff := cmp.Diff(m.account(excluded), m.registry.AccountWithout(key, id)); diff != "" {
		t.Fatalf("account without %s of %v (-want +got):\n%s", id, key, diff)
	}
}

// shown returns the registry's launchers. Their removal shows at Release.
func (m *registryModel) shown() map[string]modelLauncher {
	got := map[string]modelLauncher{}
	for _, l := range m.registry.List() {
		shown := modelLauncher{
			uid: l.Pod.UID, sandbox: l.SandboxID, state: l.State, vm: len(l.VMs) > 0,
			removed: m.model[l.Container.ID].removed,
		}
		if shown.memory, shown.free = l.MemoryLimit, l.Demand == nil; !shown.free {
			shown.demand = *l.Demand
		}
		latest, _ := m.registry.Get(l.Key())
		shown.latest = latest.Container.ID == l.Container.ID
		got[l.Container.ID] = shown
	}
	return got
}
