package deploy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// virtController is the account that makes launcher pods.
const virtController = "system:serviceaccount:kubevirt:kubevirt-controller"

func launcherLabels() []string {
	return []string{kubevirtv1.CreatedByLabel, kubevirtv1.MigrationJobLabel}
}

func (p *policyTest) labelled(name string, labels map[string]string) *corev1.Pod {
	pod := p.pod(name, nil)
	pod.Labels = labels
	return pod
}

// awaitLabels returns when the API server applies the policy for labels.
func (p *policyTest) awaitLabels(t *testing.T, heeded func(err error) error) {
	t.Helper()
	eventually(t, "the policy for labels", func() error {
		probe := p.labelled("probe", map[string]string{kubevirtv1.MigrationJobLabel: "uid"})
		return heeded(p.plain.Create(t.Context(), probe, client.DryRunAll))
	})
}

// startEnforcedLabels is startEnforced. It also returns a client with the rights of KubeVirt's
// controller.
func startEnforcedLabels(t *testing.T) (*policyTest, client.Client) {
	t.Helper()
	p := startEnforced(t)
	p.awaitLabels(t, func(err error) error { return checkRefusedBy("mooring-launchers", err) })
	p.bind(t, virtController, "everything-"+p.namespace)
	kubevirt := p.as(t, virtController, rest.NoWarnings{})
	eventually(t, "the rights of KubeVirt's controller", func() error {
		return kubevirt.Create(t.Context(), p.pod("probe", nil), client.DryRunAll)
	})
	return p, kubevirt
}

// Only KubeVirt's controller may make a pod with launcher labels. The right to annotate pods does
// not suffice.
func TestForgedLaunchersAreRefused(t *testing.T) {
	p, kubevirt := startEnforcedLabels(t)
	for _, key := range launcherLabels() {
		forged := func() *corev1.Pod { return p.labelled("p", map[string]string{key: "uid"}) }
		err := p.plain.Create(t.Context(), forged(), client.DryRunAll)
		wantRefused(t, key, err, "plain may not change "+key,
			`verb "set" for launcherlabels.mooring.dev in namespace `+p.namespace)
		err = p.annotator.Create(t.Context(), forged(), client.DryRunAll)
		wantRefused(t, key+", with the right to annotate", err, "annotator may not change "+key)
		replicas := p.as(t, "system:serviceaccount:kube-system:replicaset-controller",
			rest.NoWarnings{})
		wantRefused(t, key+", by way of a ReplicaSet",
			replicas.Create(t.Context(), forged(), client.DryRunAll), key)
		if err := kubevirt.Create(t.Context(), forged(), client.DryRunAll); err != nil {
			t.Errorf("%s, by KubeVirt's controller: %v", key, err)
		}
	}
	for _, key := range []string{kubevirtv1.AppLabel, "kubevirt.io/created-by-hand", "app"} {
		if err := p.plain.Create(t.Context(),
			p.labelled("p", map[string]string{key: "virt-launcher"}), client.DryRunAll); err !=
			nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// No request may add or remove a pod's launcher labels.
func TestLauncherLabelsAreKept(t *testing.T) {
	p, kubevirt := startEnforcedLabels(t)
	pod := p.labelled("launcher", map[string]string{kubevirtv1.CreatedByLabel: "uid"})
	if err := kubevirt.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	const key = kubevirtv1.CreatedByLabel
	changed, removed := pod.DeepCopy(), pod.DeepCopy()
	changed.Labels[key] = "another"
	delete(removed.Labels, key)
	wantRefused(t, "changed", p.plain.Update(t.Context(), changed.DeepCopy(), client.DryRunAll),
		key)
	wantRefused(t, "removed", p.plain.Update(t.Context(), removed, client.DryRunAll), key)
	wantRefused(t, "changed with the status",
		p.plain.Status().Update(t.Context(), changed.DeepCopy()), key)
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{kubevirtv1.MigrationJobLabel: "uid"}},
		Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"},
	}
	err := p.plain.SubResource("binding").Create(t.Context(), pod.DeepCopy(), binding)
	wantRefused(t, "bound", err, kubevirtv1.MigrationJobLabel)
}

// The scheduler, kubelet and Kubernetes' controllers may change a pod without changing the labels.
func TestLaunchersAreWorkedWith(t *testing.T) {
	p, kubevirt := startEnforcedLabels(t)
	pod := p.labelled("launcher", map[string]string{kubevirtv1.CreatedByLabel: "uid",
		kubevirtv1.MigrationJobLabel: "uid"})
	if err := kubevirt.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	collector := p.as(t, "system:serviceaccount:kube-system:generic-garbage-collector",
		rest.NoWarnings{})
	was := pod.DeepCopy()
	pod.Annotations = map[string]string{"example.com/a": "1"}
	if err := collector.Patch(t.Context(), pod, client.MergeFrom(was)); err != nil {
		t.Errorf("by a controller: %v", err)
	}
	scheduler := p.as(t, "system:kube-scheduler", rest.NoWarnings{})
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}
	if err := scheduler.SubResource("binding").Create(t.Context(), pod.DeepCopy(), binding); err !=
		nil {
		t.Errorf("by the scheduler: %v", err)
	}
	p.bind(t, "system:node:node-1", "everything-"+p.namespace)
	kubelet := p.as(t, "system:node:node-1", rest.NoWarnings{})
	eventually(t, "the rights of the node", func() error {
		return kubelet.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
	})
	was = pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	if err := kubelet.Status().Patch(t.Context(), pod, client.MergeFrom(was)); err != nil {
		t.Errorf("by kubelet: %v", err)
	}
	other := pod.DeepCopy()
	other.Labels["app"] = "vm"
	if err := p.plain.Update(t.Context(), other); err != nil {
		t.Errorf("another label: %v", err)
	}
	if err := p.plain.Delete(t.Context(), pod); err != nil {
		t.Errorf("deleted: %v", err)
	}
}
