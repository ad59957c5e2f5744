package kube

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api/agentapi"
)

var vmi = corev1.ObjectReference{Kind: "VirtualMachineInstance", APIVersion: "kubevirt.io/v1",
	Namespace: "vms", Name: "vm", UID: "vmi-uid"}

// A warning about a launcher of KubeVirt is also on its VirtualMachineInstance, once. Other Events
// are on the pod only.
func TestWarningOnTheInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(t)
		r.instance = func(podUID string) (corev1.ObjectReference, bool) {
			return vmi, podUID == "of-a-vm"
		}
		r.start(t)
		for _, e := range []agentapi.Event{
			{Type: agentapi.Warning, Reason: agentapi.ReasonMemlockRefused, Message: "refused",
				Pod: agentapi.PodRef{Namespace: "vms", Name: "launcher", UID: "of-a-vm"}},
			{Type: agentapi.Warning, Reason: agentapi.ReasonMemlockRefused, Message: "refused",
				Pod: agentapi.PodRef{Namespace: "vms", Name: "launcher", UID: "of-a-vm"}},
			{Type: agentapi.Normal, Reason: agentapi.ReasonVMStarted, Message: "runs",
				Pod: agentapi.PodRef{Namespace: "vms", Name: "launcher", UID: "of-a-vm"}},
			{Type: agentapi.Warning, Reason: agentapi.ReasonMemlockRefused, Message: "other",
				Pod: agentapi.PodRef{Namespace: "vms", Name: "plain", UID: "plain"}},
		} {
			r.Record(e)
		}
		synctest.Wait()
		r.stop()
		var got []string
		for _, e := range r.list(t) {
			if e.Regarding.Kind == "Pod" {
				continue
			}
			got = append(got, e.Reason+": "+e.Note)
			if e.Regarding != vmi || e.Related == nil || e.Related.Name != "launcher" ||
				e.Namespace != "vms" || e.Series != nil {
				t.Errorf("got %+v", e)
			}
		}
		if diff := cmp.Diff([]string{"MemlockRefused: refused"}, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		r.wantOutcomes(t, outcomes{Written: 3, Merged: 1})
	})
}

// The instance is the pod's controller of KubeVirt's kind.
func TestInstance(t *testing.T) {
	owned := func(uid string, owner metav1.OwnerReference) *corev1.Pod {
		p := pod(uid, uid, "default")
		p.Namespace, p.OwnerReferences = "vms", []metav1.OwnerReference{owner}
		return p
	}
	owner := metav1.OwnerReference{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineInstance",
		Name: "vm", UID: "vmi-uid", Controller: new(true)}
	other, foreign, second := owner, owner, owner
	other.Kind, foreign.APIVersion, second.Controller = "ReplicaSet", "example.org/v1", nil
	c := startCache(t, fake.NewClientset(owned("launcher", owner), owned("other", other),
		owned("foreign", foreign), owned("second", second)))
	eventually(t, "the pods", c.Synced)
	if got, ok := c.Instance("launcher"); !ok || got != vmi {
		t.Errorf("got %+v, %t, want %+v", got, ok, vmi)
	}
	for _, uid := range []string{"other", "foreign", "second", "absent"} {
		if got, ok := c.Instance(uid); ok {
			t.Errorf("%s: got %+v, want none", uid, got)
		}
	}
}
