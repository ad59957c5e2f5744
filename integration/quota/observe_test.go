package quota

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/controller"
	"github.com/mooring-vm/mooring/quota/webhook/observe"
)

// TestObserveThenEnforce installs in mode observe next to a running VM, with the rights of
// install.yaml. Nothing changes. Then it switches to mode enforce, and compares each prediction
// with the outcome.
func TestObserveThenEnforce(t *testing.T) {
	c := kubevirttest.Start(t)
	ns := c.Namespace(t, full())
	vm := newVM(ns, "vm", virtv1.RunStrategyAlways)
	wantPass(t, c.Client.Create(t.Context(), vm))
	awaitVMRunning(t, c, vm)
	awaitPods(t, c, ns, 1)
	p := installServing(t, c)
	setKubeVirtVersion(t, c)
	p.startIn(t, c, policy.Observe, "install.yaml")

	before := contents(t, c, ns)
	m := c.MigrateUntil(t, awaitInstance(t, c, vm), virtv1.MigrationPreparingTarget)
	m.AwaitRejected(t)
	predicted := awaitNote(t, c, ns, controller.ReasonWouldScale)
	r := awaitPhase(t, c, ns, v1alpha1.PhaseReserved)
	requests := guardedRequests(t, ns)
	warnings := map[string]string{}
	for name, send := range requests {
		warnings[name] = predictedRefusal(t, c, send)
	}
	awaitEvents(t, c, m.Get(t), quota.ReasonWouldReserve)
	if diff := cmp.Diff(before, contents(t, c, ns)); diff != "" {
		t.Errorf("mode observe changed objects (-before +after):\n%s", diff)
	}
	if all, _ := writes(t, p); all["failed"] > 0 {
		t.Errorf("writes %v: want none that failed", all)
	}
	p.stop(t)

	p.startIn(t, c, policy.Enforce, "controller-role.yaml")
	m.Await(t, virtv1.MigrationPreparingTarget)
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(full(), r))
	for name, now := range quotaOf(t, c, ns, kubevirttest.QuotaName).Spec.Hard {
		was := full()[name]
		if want := fmt.Sprintf("%s from %s to %s", name, &was, &now); !strings.Contains(predicted,
			want) {
			t.Errorf("predicted %q, and the outcome is %q", predicted, want)
		}
	}
	for name, send := range requests {
		eventually(t, name+" to be refused", func() error {
			return checkRefusal(send(c.Client), warnings[name])
		})
	}
	m.GoOn(t)
	m.Await(t, virtv1.MigrationSucceeded)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
}

// TestObservedLauncher compares the predicted changes of a launcher pod with those of mode enforce.
func TestObservedLauncher(t *testing.T) {
	c := kubevirttest.Start(t)
	ns := c.Namespace(t, nil)
	p := installServing(t, c)
	setKubeVirtVersion(t, c)
	p.startIn(t, c, policy.Observe, "install.yaml")
	first := launcherOf(t, c, hookedVMI(t, c, ns, "first"))
	if first.Spec.Containers[0].Lifecycle != nil || first.Annotations[api.LauncherKey] != "" {
		t.Errorf("mode observe changed the pod: %+v", first)
	}
	predicted := awaitNote(t, c, ns, observe.ReasonWouldChange)
	p.stop(t)
	p.startIn(t, c, policy.Enforce, "controller-role.yaml")
	second := launcherOf(t, c, hookedVMI(t, c, ns, "second"))
	for key, value := range second.Annotations {
		want := fmt.Sprintf("add metadata/annotations/%s=%s", key, value)
		if strings.HasSuffix(key, ".mooring.dev") && first.Annotations[key] == "" &&
			!strings.Contains(predicted, want) {
			t.Errorf("predicted %q, and the outcome is %q", predicted, want)
		}
	}
	if second.Spec.Containers[0].Lifecycle == nil ||
		!strings.Contains(predicted, "add spec/containers/0/lifecycle") {
		t.Errorf("predicted %q, and the outcome is %+v", predicted, second.Spec.Containers[0])
	}
}

// hookedVMI makes a VMI that asks for the preStop hook.
func hookedVMI(
	t *testing.T, c *kubevirttest.Cluster, ns, name string,
) *virtv1.VirtualMachineInstance {
	t.Helper()
	vmi := kubevirttest.NewVMI(ns, name, small())
	vmi.Annotations = map[string]string{api.InjectPreStopKey: "true"}
	if err := c.Client.Create(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	return vmi
}

// startIn starts the controller in a mode with the roles of a manifest. It returns when the API
// server calls the webhooks.
func (p *program) startIn(
	t *testing.T, c *kubevirttest.Cluster, mode policy.Mode, roles string,
) {
	t.Helper()
	for _, o := range manifests(t, roles, "ClusterRole", "ClusterRoleBinding", "Role",
		"RoleBinding") {
		apply(t, c, o)
	}
	p.args = append(p.args, "--mode="+string(mode))
	p.start(t)
	eventually(t, "the API server to get the bundle", func() error { return trusted(t, c) })
}

// guardedRequests are requests without effect that mode enforce refuses during the migration.
func guardedRequests(t *testing.T, ns string) map[string]func(client.Client) error {
	t.Helper()
	q := &corev1.ResourceQuota{}
	q.Namespace, q.Name = ns, kubevirttest.QuotaName
	return map[string]func(client.Client) error{
		"a second VM": func(by client.Client) error {
			return by.Create(t.Context(), newVM(ns, "second", virtv1.RunStrategyAlways),
				client.DryRunAll)
		},
		"an edit of the quota": func(by client.Client) error {
			return by.Patch(t.Context(), q.DeepCopy(), merge(`{"spec": {"hard": {"pods": "5"}}}`),
				client.DryRunAll)
		},
		"a deletion of the quota": func(by client.Client) error {
			return by.Delete(t.Context(), q.DeepCopy(), client.DryRunAll)
		},
	}
}

// predictedRefusal sends a request until it passes with a warning, and returns the refusal that the
// warning predicts.
func predictedRefusal(
	t *testing.T, c *kubevirttest.Cluster, send func(client.Client) error,
) (why string) {
	t.Helper()
	heard := &warnings{}
	config := rest.CopyConfig(c.Plane.Config())
	config.WarningHandler = heard
	by, err := client.New(config, client.Options{Scheme: c.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a warning", func() error {
		if err := send(by); err != nil {
			return err
		}
		for _, text := range *heard {
			if _, after, ok := strings.Cut(text, policy.Observing+"would refuse: "); ok {
				why = after
				return nil
			}
		}
		return errors.New("there is none")
	})
	return why
}

// warnings collects the warnings of the API server.
type warnings []string

// HandleWarningHeader implements [rest.WarningHandler].
func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { *w = append(*w, text) }

// awaitNote returns the text of the only Event with a reason.
func awaitNote(t *testing.T, c *kubevirttest.Cluster, ns, reason string) (note string) {
	t.Helper()
	eventually(t, "an Event "+reason, func() error {
		all := &eventsv1.EventList{}
		if err := c.Client.List(t.Context(), all, client.InNamespace(ns)); err != nil {
			return err
		}
		for _, e := range all.Items {
			if e.Reason == reason {
				note = e.Note
				return nil
			}
		}
		return errors.New("there is none")
	})
	return note
}

// contents returns spec, labels and annotations of the objects that Mooring changes in mode
// enforce, by kind and name. It leaves out what KubeVirt and Kubernetes change meanwhile: pods and
// VMs have no other writers.
func contents(t *testing.T, c *kubevirttest.Cluster, ns string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for kind, gv := range map[string]string{"Pod": "v1", "ResourceQuota": "v1",
		"VirtualMachine": "kubevirt.io/v1"} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(gv)
		list.SetKind(kind + "List")
		if err := c.Client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			all[kind+" "+o.GetName()] = content(t, o)
		}
	}
	namespace := &corev1.Namespace{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: ns}, namespace); err != nil {
		t.Fatal(err)
	}
	all["Namespace"] = fmt.Sprint(slices.Sorted(maps.Keys(namespace.Annotations)))
	return all
}

func content(t *testing.T, o unstructured.Unstructured) string {
	t.Helper()
	text, err := json.Marshal([]any{o.Object["spec"], o.GetLabels(), o.GetAnnotations()})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
