package podserver_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/agent/podserver"
	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/shim/agent"
	"github.com/mooring-vm/mooring/shim/resize"
)

// listing is a Kubernetes whose list of pods is late. early are the pods known before the list is
// complete.
type listing struct {
	early, all specs
	synced     atomic.Bool
}

func (l *listing) Desired(uid, container string) (podapi.Desired, bool) {
	if l.synced.Load() {
		return l.all.Desired(uid, container)
	}
	return l.early.Desired(uid, container)
}

func (l *listing) Synced() bool { return l.synced.Load() }

func vcpus(n int) api.Size { return api.Size{VCPUs: n} }

// Until the list of pods is complete, the size from the pod's creation does not count. Then the pod
// gets a hint.
func TestDesiredBeforePodsAreListed(t *testing.T) {
	for name, test := range map[string]struct {
		early, all specs
		before     int // desired vCPUs before the list; 0: the agent answers "starting"
		after      int
	}{
		"unknown":       {nil, specs{"a": {Size: vcpus(4)}}, 0, 4},
		"known already": {specs{"a": {Size: vcpus(2)}}, specs{"a": {Size: vcpus(4)}}, 2, 4},
		"never known":   {nil, nil, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r, kube := newRig(t), &listing{early: test.early, all: test.all}
			r.Desired = kube
			r.registry.Update("ID-a", func(l *registry.Launcher) { l.Size = vcpus(1) })
			n := agent.New(r.serve(t, "a"))
			changed, err := n.Changed(t.Context())
			must(t, err)
			await(t, changed)
			before, err := n.Desired(t.Context())
			if before.VCPUs != test.before ||
				(test.before == 0) != errors.Is(err, resize.ErrAgent) {
				t.Errorf("before the list: %+v, %v, want %d vCPUs, or ErrAgent for 0", before, err,
					test.before)
			}
			if g := r.Pod("a").Summary(); g.Generation != before.Generation {
				t.Errorf("generation %d in the summary, want %d", g.Generation, before.Generation)
			}
			kube.synced.Store(true)
			await(t, changed)
			after, err := n.Desired(t.Context())
			if after.VCPUs != test.after || after.Generation <= before.Generation || err != nil {
				t.Errorf("after the list: %+v, %v, want %d vCPUs and a higher generation than %d",
					after, err, test.after, before.Generation)
			}
		})
	}
}

// A dry run requested before the list is complete appears with the desired state.
func TestDryRunBeforePodsAreListed(t *testing.T) {
	r, kube := newRig(t), &listing{all: specs{"a": {Size: vcpus(4)}}}
	r.Desired = kube
	asked, err := r.RequestSize("vms", "pod-a", api.Size{VCPUs: 8}, true)
	must(t, err)
	wantRefusal := func(err error) {
		t.Helper()
		if refusal, ok := errors.AsType[*podserver.Refusal](err); !ok ||
			refusal.Code != podapi.CodeStarting {
			t.Errorf("error %v, want one with code %s", err, podapi.CodeStarting)
		}
	}
	_, err = r.Pod("a").Desired()
	wantRefusal(err)
	kube.synced.Store(true)
	if w, err := r.Pod("a").Desired(); w.DryRun == nil ||
		w.DryRun.Generation != asked[0].Generation || w.VCPUs != 4 || err != nil {
		t.Errorf("%+v, %v, want the dry run %+v", w, err, asked)
	}
}

// meanwhile is a store that calls a function before its first answer.
type meanwhile struct {
	podserver.Store
	first atomic.Pointer[func()] // called once
}

func (m *meanwhile) Get(uid string) (podserver.Record, error) {
	asked, err := m.Store.Get(uid)
	if first := m.first.Swap(nil); first != nil {
		(*first)()
	}
	return asked, err
}

// A size requested while another request reads the earlier size has the higher generation. Reports
// about the earlier size are then not taken for reports about the new one.
func TestRequestDuringARead(t *testing.T) {
	r := newRig(t)
	store := &meanwhile{Store: r.Store}
	r.Store = store
	_, err := r.RequestSize("vms", "pod-a", api.Size{VCPUs: 2}, false)
	must(t, err)
	asked := make(chan uint64, 1)
	ask := func() {
		defer close(asked)
		if pods, err := r.RequestSize("vms", "pod-a", api.Size{VCPUs: 4}, false); err != nil ||
			len(pods) != 1 {
			t.Errorf("RequestSize: %+v, %v", pods, err)
		} else {
			asked <- pods[0].Generation
		}
	}
	late := func() {
		go ask()
		// the request may have to wait
		for end := time.Now().Add(200 * time.Millisecond); len(asked) == 0 &&
			time.Now().Before(end); {
			<-time.After(time.Millisecond)
		}
	}
	store.first.Store(&late)
	old, err := r.Pod("a").Desired()
	must(t, err)
	generation := await(t, asked)
	if old.VCPUs != 2 || old.Generation >= generation {
		t.Errorf("read %+v, then requested generation %d: want a higher one", old, generation)
	}
	if now, err := r.Pod("a").Desired(); now.VCPUs != 4 || now.Generation != generation ||
		err != nil {
		t.Errorf("desired %+v, %v, want the requested size of generation %d", now, err, generation)
	}
}
