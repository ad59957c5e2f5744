package guard_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/quota/virt"
	"github.com/mooring-vm/mooring/quota/webhook/guard"
)

// vmNamed needs one CPU and 2.5Gi of memory, KubeVirt's overhead included. Three of them fit into
// the free 8Gi of [quiet].
func vmNamed(name string, with ...func(*kubevirtv1.VirtualMachine)) *kubevirtv1.VirtualMachine {
	v := vm(always, "1Gi")
	v.ObjectMeta = inVMs(name)
	v.Spec.Template.Spec.Domain.CPU.Cores = 1
	for _, change := range with {
		change(v)
	}
	return v
}

func manually(v *kubevirtv1.VirtualMachine) { v.Spec.RunStrategy = new(manual) }

func once(v *kubevirtv1.VirtualMachine) {
	v.Spec.RunStrategy = new(kubevirtv1.RunStrategyOnce)
}

func stopped(v *kubevirtv1.VirtualMachine) {
	v.Status.PrintableStatus = kubevirtv1.VirtualMachineStatusStopped
}

func deleted(v *kubevirtv1.VirtualMachine) {
	v.DeletionTimestamp, v.Finalizers = ending().DeletionTimestamp, []string{"test"}
}

// unknownSize refers to an instance type that does not exist, so KubeVirt cannot start the VM.
func unknownSize(v *kubevirtv1.VirtualMachine) {
	v.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{Name: "none"}
}

// TestVMsWithoutALauncher creates a VM beside three others. It fits if they claim nothing.
func TestVMsWithoutALauncher(t *testing.T) {
	starts := actions(kubevirtv1.StartRequest)
	for name, test := range map[string]struct {
		other func(name string) client.Object
		fits  bool
	}{
		"new": {func(n string) client.Object { return vmNamed(n) }, false},
		"restarting": {func(n string) client.Object {
			return vmNamed(n, manually, stopped, starts)
		}, false},
		"new, once":      {func(n string) client.Object { return vmNamed(n, once) }, false},
		"has run once":   {func(n string) client.Object { return vmNamed(n, once, stopped) }, true},
		"not started":    {func(n string) client.Object { return vmNamed(n, manually) }, true},
		"in deletion":    {func(n string) client.Object { return vmNamed(n, deleted) }, true},
		"has a launcher": {func(n string) client.Object { return launcher(n, "1", "1Gi") }, true},
		"unknown size":   {func(n string) client.Object { return vmNamed(n, unknownSize) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, namespace(), quiet(), kubevirtObject(), test.other("a"),
				test.other("b"), test.other("c"))
			why := []string{"VirtualMachine web does not fit",
				"claimed by 3 pods that start or grow"}
			if test.fits {
				why = nil
			}
			want(t, guard.NewVM(w.guard).Handle(t.Context(), ask(t, admissionv1.Create, nil,
				vmNamed("web"))), why...)
		})
	}
}

// TestManyVMsAtOnce admits ten VMs before the API server shows any of them. Three fit.
func TestManyVMsAtOnce(t *testing.T) {
	w := newWorld(t, namespace(), quiet(), kubevirtObject())
	now := time.Now()
	w.guard.Now = func() time.Time { return now }
	handler := guard.NewVM(w.guard)
	create := func(name string, dryRun bool) admission.Response {
		r := ask(t, admissionv1.Create, nil, vmNamed(name))
		r.DryRun = &dryRun
		return handler.Handle(t.Context(), r)
	}
	if r := create("dry", true); !r.Allowed {
		t.Fatalf("the dry run: %v", r.Result)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	admitted := 0
	for i := range 10 {
		all.Go(func() {
			r := create(fmt.Sprintf("vm%d", i), false)
			mu.Lock()
			defer mu.Unlock()
			if r.Allowed {
				admitted++
			}
		})
	}
	all.Wait()
	if admitted != 3 {
		t.Errorf("admitted %d VMs, want 3", admitted)
	}
	now = now.Add(6 * time.Second) // none of them was stored
	if r := create("late", false); !r.Allowed {
		t.Errorf("after the claims have lapsed: %v", r.Result)
	}
}

// TestSlowReadBlocksNoOther holds the reads of one request while another one is answered. Both
// count.
func TestSlowReadBlocksNoOther(t *testing.T) {
	w := newWorld(t, namespace(), quiet(), kubevirtObject())
	read := w.guard.Live
	reached, released := make(chan struct{}), make(chan struct{})
	var held atomic.Bool // sync.Once would hold the other requests, too
	w.guard.Cluster = func(ctx context.Context) (virt.Cluster, error) {
		if held.CompareAndSwap(false, true) {
			close(reached)
			<-released
		}
		return virt.Read(ctx, read)
	}
	handler := guard.NewVM(w.guard)
	create := func(name string) bool {
		return handler.Handle(t.Context(), ask(t, admissionv1.Create, nil, vmNamed(name))).Allowed
	}
	slow := make(chan bool)
	go func() { slow <- create("slow") }()
	<-reached
	for _, name := range []string{"a", "b", "c"} {
		if !create(name) {
			t.Errorf("VM %s was refused", name)
		}
	}
	close(released)
	if <-slow {
		t.Error("the fourth VM was admitted")
	}
}

// TestClaimsEndWithTheLauncher admits three VMs one after another. Each is stored and charged
// before the next one, so it claims nothing more.
func TestClaimsEndWithTheLauncher(t *testing.T) {
	q := quiet()
	w := newWorld(t, namespace(), q, kubevirtObject())
	handler := guard.NewVM(w.guard)
	for i, used := range []string{"10600Mi", "13200Mi", "15800Mi"} {
		v := vmNamed(fmt.Sprintf("vm%d", i))
		want(t, handler.Handle(t.Context(), ask(t, admissionv1.Create, nil, v)))
		pod := launcher(v.Name, "1", "2600Mi")
		for _, o := range []client.Object{v, pod} {
			if err := w.client.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		q.Status.Used["limits.memory"] = resource.MustParse(used)
		if err := w.client.Update(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEditsOneAfterAnother grows a running VM again and again. Each edit counts from its launcher.
func TestEditsOneAfterAnother(t *testing.T) {
	w := newWorld(t, namespace(), quiet(), kubevirtObject(), launcher("web", "2015m", "2600Mi"))
	handler := guard.NewVM(w.guard)
	for gib := 1; gib < 11; gib++ {
		was, is := vm(always, fmt.Sprintf("%dGi", gib)), vm(always, fmt.Sprintf("%dGi", gib+1))
		why := []string{"it grows by more than is free"}
		if gib < 4 { // twice 5Gi and the overhead are 10.5Gi; 8Gi are free beside its 2.6Gi
			why = nil
		}
		want(t, handler.Handle(t.Context(), ask(t, admissionv1.Update, was, is)), why...)
	}
}
