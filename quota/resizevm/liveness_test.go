package resizevm

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/quota"
)

// fleet is a namespace of VMs with one quota, on nodes with limited room.
type fleet struct {
	vms   []*world
	nodes []int // of the VMs
	rooms []corev1.ResourceList
}

// newFleet starts VMs of 2 vCPUs and 1Gi. Their requests follow both.
func newFleet(vms, nodes int) *fleet {
	f := &fleet{}
	for i := range vms {
		w := newNamedWorld("vm"+strconv.Itoa(i), shapes()["guaranteed"])
		for _, peer := range f.vms {
			w.peers, peer.peers = append(w.peers, peer), append(peer.peers, w)
		}
		f.vms, f.nodes = append(f.vms, w), append(f.nodes, i%nodes)
	}
	return f
}

// limit sets the quota and the room of each node.
func (f *fleet) limit(hard corev1.ResourceList, rooms ...corev1.ResourceList) {
	f.rooms = rooms
	for _, w := range f.vms {
		w.hard = hard
	}
}

// kubelet accepts the resources of a pod if its node has room beside its accepted pods.
func (f *fleet) kubelet(i int) {
	used := f.vms[i].resources().Requests.DeepCopy()
	for j, other := range f.vms {
		if j != i && f.nodes[j] == f.nodes[i] {
			addTo(used, other.pod.Status.ContainerStatuses[0].AllocatedResources)
		}
	}
	if !within(used, f.rooms[f.nodes[i]]) {
		f.vms[i].deferResize()
		return
	}
	f.vms[i].accept()
}

// reconcile acts as the reconciler for one VM.
func (f *fleet) reconcile(t tester, i, minute int) {
	w := f.vms[i]
	w.away = false
	for _, peer := range w.peers {
		w.away = w.away || minute%2 == 1 && waitsForQuota(peer.vm.Annotations)
	}
	w.apply(w.decide(t))
}

// run lets all parts act without faults. A minute has four rounds.
func (f *fleet) run(t tester, minutes int) {
	for round := range 4 * minutes {
		for i, w := range f.vms {
			f.reconcile(t, i, round/4)
			f.kubelet(i)
			w.follow()
		}
	}
}

// checkServed checks that each VM has its size, or does not fit beside the other VMs.
func (f *fleet) checkServed(t tester) {
	t.Helper()
	for i, w := range f.vms {
		s, _ := statusIn(w.vm.Annotations)
		if s.Reason != api.ResizeDone && !w.broken && f.fits(t, i) {
			t.Errorf("VM %d would fit, and has the status %+v with the guest %+v", i, s, w.guest)
		}
	}
}

// fits reports whether quota and node have room for the desired size of a VM.
func (f *fleet) fits(t tester, i int) bool {
	w := f.vms[i]
	alone := newWorld(w.shape)
	size, err := api.ParseVMSize(w.vm.Annotations)
	if err != nil {
		t.Fatal(err)
	}
	alone.ask(api.VCPUsKey, strconv.Itoa(size.VCPUs), api.ResizeMemoryKey, size.Memory.String())
	alone.settle(t)
	charge, requests := quota.Charge(alone.pod), alone.resources().Requests.DeepCopy()
	for j, other := range f.vms {
		if j == i {
			continue
		}
		addTo(charge, quota.Charge(other.pod))
		if f.nodes[j] == f.nodes[i] {
			addTo(requests, other.resources().Requests)
		}
	}
	return within(charge, w.hard) && within(requests, f.rooms[f.nodes[i]])
}

func addTo(sum, more corev1.ResourceList) {
	for name, q := range more {
		total := sum[name].DeepCopy()
		total.Add(q)
		sum[name] = total
	}
}

func within(used, hard corev1.ResourceList) bool {
	for name, q := range hard {
		if u := used[name]; u.Cmp(q) > 0 {
			return false
		}
	}
	return true
}

func size(vcpus, gigabytes int) []string {
	return []string{api.VCPUsKey, strconv.Itoa(vcpus), api.ResizeMemoryKey,
		strconv.Itoa(gigabytes) + "Gi"}
}

func quotaOf(cpu, memory string) corev1.ResourceList {
	return list("requests.cpu", cpu, "limits.cpu", cpu, "requests.memory", memory,
		"limits.memory", memory)
}

// Two VMs exchange vCPUs and memory, each of which only the other one can free.
func TestExchange(t *testing.T) {
	for name, limit := range map[string]func(*fleet){
		"of the quota": func(f *fleet) { f.limit(quotaOf("5500m", "5500Mi"), nil) },
		"of the node": func(f *fleet) {
			f.limit(nil, list("cpu", "5500m", "memory", "5500Mi"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(2, 1)
			f.limit(nil, nil)
			f.vms[0].ask(size(4, 1)...)
			f.vms[1].ask(size(1, 3)...)
			f.run(t, 2)
			limit(f)
			f.vms[0].ask(size(1, 3)...)
			f.vms[1].ask(size(4, 1)...)
			f.run(t, 2)
			f.checkServed(t)
			for i, w := range f.vms {
				if s, _ := statusIn(w.vm.Annotations); s.Reason != api.ResizeDone {
					t.Errorf("VM %d: %+v", i, s)
				}
			}
		})
	}
}

// A VM on a full node leaves the quota to a VM that has a node with room, and gets it afterwards.
func TestTurns(t *testing.T) {
	f := newFleet(2, 2)
	f.limit(quotaOf("64", "6Gi"), list("memory", "2Gi"), list("memory", "64Gi"))
	f.vms[0].ask(size(2, 3)...)
	f.run(t, 1)
	f.vms[1].ask(size(2, 3)...)
	f.run(t, 4)
	f.checkServed(t)
	if got := f.vms[1].guest.Memory; got != 3*gib {
		t.Errorf("the VM with room has %d bytes", got)
	}
	f.rooms[0] = list("memory", "64Gi")
	f.vms[1].ask(size(2, 1)...)
	f.run(t, 4)
	if got := f.vms[0].guest.Memory; got != 3*gib {
		t.Errorf("the VM that gave way has %d bytes", got)
	}
}

// TestFleetIsLive changes VMs at random, and loses patches. After the faults each VM gets its size,
// unless quota or node lack room beside the other sizes.
func TestFleetIsLive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(from, to int, label string) int {
			return rapid.IntRange(from, to).Draw(t, label)
		}
		f := newFleet(number(2, 4, "VMs"), number(1, 2, "nodes"))
		room := func(label string) corev1.ResourceList {
			return list("cpu", strconv.Itoa(number(4, 16, label)),
				"memory", strconv.Itoa(number(3, 16, label))+"Gi")
		}
		r := room("quota")
		cpu, memory := r.Cpu().String(), r.Memory().String()
		f.limit(quotaOf(cpu, memory), room("node 0"), room("node 1"))
		for range number(0, 40, "steps") {
			i := number(0, len(f.vms)-1, "VM")
			switch w := f.vms[i]; number(0, 4, "event") {
			case 0:
				w.ask(size(number(1, 8, "vCPUs"), number(1, 8, "memory"))...)
			case 1:
				f.reconcile(t, i, number(0, 1, "minute"))
			case 2:
				f.kubelet(i)
			case 3:
				w.follow()
			case 4:
				w.broken = rapid.Bool().Draw(t, "broken")
			}
		}
		for _, w := range f.vms {
			w.ask(size(number(1, 6, "vCPUs at the end"), number(1, 6, "memory at the end"))...)
		}
		f.run(t, 8)
		f.checkServed(t)
	})
}

// Kubelet takes a change of resources as a whole, so growth waits until a shrink is accepted.
func TestGrowthWaitsForTheShrink(t *testing.T) {
	w := newWorld(shapes()["burstable"])
	w.ask(size(2, 3)...)
	w.settle(t)
	w.ask(size(4, 1)...)
	w.apply(w.decide(t))
	w.follow()
	lower := w.decide(t)
	if lower.Resources == nil {
		t.Fatalf("%+v, want lower resources", lower)
	}
	w.apply(lower)
	if d := w.decide(t); d.Resources != nil || d.Status.Reason != api.ResizeUnderWay {
		t.Errorf("before kubelet's answer %+v, want nothing", d)
	}
	w.accept()
	if d := w.decide(t); d.Resources == nil {
		t.Errorf("after kubelet's answer %+v, want the growth", d)
	}
}
