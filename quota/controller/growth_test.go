package controller

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/events"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-vm/mooring/quota"
)

// eventWith returns the text of the next Event with a reason.
func eventWith(t *testing.T, r *Reconciler, reason string) string {
	t.Helper()
	for {
		select {
		case e := <-r.Events.(*events.FakeRecorder).Events:
			if strings.Fields(e)[1] == reason {
				return e
			}
		default:
			t.Fatalf("no Event %s", reason)
		}
	}
}

// TestGrowthNamesItsCauses: the instance of a VM has grown by 1Gi without a check, and its launcher
// was made without KubeVirt's overhead. The Event of the larger target pod has both amounts.
func TestGrowthNamesItsCauses(t *testing.T) {
	for name, test := range map[string]struct {
		present string
		parts   []string
	}{
		"a user and overhead": {"1Gi", []string{"by requests.memory=1Gi for the larger size of VM vm",
			"requests.memory=302Mi for overhead"}},
		"overhead": {"2Gi", []string{"by requests.memory=1326Mi for overhead"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create(t, knownKubeVirt())
			vmi := &kubevirtv1.VirtualMachineInstance{}
			w.must(t, w.api.Get(t.Context(),
				client.ObjectKey{Namespace: namespaceName, Name: "vm"}, vmi))
			vmi.Status.Memory = &kubevirtv1.MemoryStatus{
				GuestRequested: new(resource.MustParse(test.present))}
			w.must(t, w.api.Update(t.Context(), vmi))
			r := w.reconciler(interceptor.Funcs{})
			outgrown(t, r, w)
			w.must(t, w.settle(t, r))
			e := eventWith(t, r, quota.ReasonGrown)
			for _, part := range test.parts {
				if !strings.Contains(e, part) {
					t.Errorf("%s: want %q in it", e, part)
				}
			}
		})
	}
}

// TestUnknownCauses: without KubeVirt's settings, the Event has the amount only.
func TestUnknownCauses(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler(interceptor.Funcs{})
	w.create(t, migration(kubevirtv1.MigrationPending))
	w.must(t, w.settle(t, r))
	larger := target()
	larger.Spec.Containers[0].Resources = wanting("2Gi")
	w.create(t, larger)
	w.must(t, w.settle(t, r))
	if e := eventWith(t, r, quota.ReasonGrown); !strings.HasSuffix(e, "more than reserved") {
		t.Errorf("%s: want no cause in it", e)
	}
}

// TestOverrunNamesItsAmount: the amounts at the time of the report count.
func TestOverrunNamesItsAmount(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler(interceptor.Funcs{})
	ns := r.namespaces.get(namespaceName)
	over := func(amount string) quota.Plan {
		return quota.Plan{Overruns: []quota.Overrun{{Quota: "quota", Excess: corev1.ResourceList{
			corev1.ResourceRequestsMemory: resource.MustParse(amount)}}}}
	}
	r.reportStates(ns, over("1Gi"))
	w.now = w.now.Add(minOverrun)
	r.reportStates(ns, over("2Gi"))
	if e := eventWith(t, r, ReasonOverrun); !strings.Contains(e, "base by requests.memory=2Gi,") {
		t.Errorf("%s: want the amount in it", e)
	}
	w.now = w.now.Add(minOverrun)
	r.reportStates(ns, over("3Gi"))
	if again := eventReasons(r); len(again) > 0 {
		t.Errorf("%v: want one Event of an overrun", again)
	}
}
