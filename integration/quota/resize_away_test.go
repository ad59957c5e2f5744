package quota

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota/webhook"
)

const resizedWebhook = "resized-launchers.mooring.dev"

// TestResizedTargetAwaitsController migrates two VMs while the controller is away. KubeVirt creates
// the target of the VM with its template's size. The API server refuses the target of the resized
// VM, KubeVirt retries, and with the controller the target has the VM's size.
func TestResizedTargetAwaitsController(t *testing.T) {
	c, p := startServing(t, "--shim-image=registry.test/mooring-shim:v1", "--resize-vms")
	setKubeVirtVersion(t, c)
	awaitWebhookCalled(t, c)
	ns := c.Namespace(t, nil)
	resized, plain := runSizable(t, c, ns, "resized"), runSizable(t, c, ns, "plain")
	askSize(t, c, resized, "3Gi")
	source := awaitResized(t, c, resized)
	vmi := awaitInstance(t, c, resized)
	if vmi.Labels[api.ResizedLabel] != "true" {
		t.Errorf("the resized instance has the labels %v", vmi.Labels)
	}
	if labels := awaitInstance(t, c, plain).Labels; labels[api.ResizedLabel] != "" {
		t.Errorf("the other instance has the labels %v", labels)
	}
	enforceResized(t, c)
	p.stop(t)
	awaitRefused(t, c, &source)

	c.Migrate(t, awaitInstance(t, c, plain)).Await(t, virtv1.MigrationSucceeded)
	m := c.Migrate(t, vmi)
	eventually(t, "KubeVirt to report the refused target", func() error {
		return checkFailedCreate(t, c, vmi)
	})
	if n := len(c.Launchers(t, vmi)); n != 1 {
		t.Errorf("%d launchers of the resized VM, want its source only", n)
	}

	p.start(t)
	m.Await(t, virtv1.MigrationSucceeded)
	want, got := requestOf(&source, corev1.ResourceMemory),
		requestOf(m.Target(t), corev1.ResourceMemory)
	if got.Cmp(want) != 0 {
		t.Errorf("the target requests %s of memory, want %s", &got, &want)
	}
}

// runSizable creates a VM with mooring-shim and returns when it runs.
func runSizable(
	t *testing.T, c *kubevirttest.Cluster, ns, name string,
) *virtv1.VirtualMachine {
	t.Helper()
	vm := newVM(ns, name, virtv1.RunStrategyAlways)
	vm.Spec.Template.ObjectMeta.Annotations = map[string]string{api.InjectSidecarKey: "true"}
	if err := c.Client.Create(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	awaitVMRunning(t, c, vm)
	return vm
}

// enforceResized gives the webhook the failure policy of mode enforce.
func enforceResized(t *testing.T, c *kubevirttest.Cluster) {
	t.Helper()
	object := &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: webhook.MutatingConfiguration}}
	change(t, c, object, func() {
		for i := range object.Webhooks {
			if object.Webhooks[i].Name == resizedWebhook {
				object.Webhooks[i].FailurePolicy = new(admissionv1.Fail)
			}
		}
	})
}

// awaitRefused returns when the API server refuses a target like the given launcher.
func awaitRefused(t *testing.T, c *kubevirttest.Cluster, source *corev1.Pod) {
	t.Helper()
	target := copyOf(source)
	target.Labels[virtv1.MigrationJobLabel], target.Labels[api.ResizedLabel] = "migration", "true"
	eventually(t, "targets to be refused", func() error {
		err := c.Client.Create(t.Context(), target.DeepCopy(), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), resizedWebhook) {
			return fmt.Errorf("the answer is: %w", err)
		}
		return nil
	})
}

// checkFailedCreate returns nil if KubeVirt has reported an unanswered webhook for a target of vmi.
func checkFailedCreate(
	t *testing.T, c *kubevirttest.Cluster, vmi *virtv1.VirtualMachineInstance,
) error {
	t.Helper()
	all := &corev1.EventList{}
	if err := c.Client.List(t.Context(), all, client.InNamespace(vmi.Namespace)); err != nil {
		return err
	}
	for i := range all.Items {
		if e := &all.Items[i]; e.InvolvedObject.UID == vmi.UID &&
			strings.Contains(e.Message, "failed calling webhook") &&
			strings.Contains(e.Message, resizedWebhook) {
			return nil
		}
	}
	return fmt.Errorf("no such Event among %d", len(all.Items))
}
