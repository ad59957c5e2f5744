package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// TestDeleted: the cache keeps the deletion of pods with the finalizer, and their domains.
func TestDeleted(t *testing.T) {
	waits, lives, plain := pod("uid-1", "vm-1", "default"), pod("uid-2", "vm-2", "default"),
		pod("uid-3", "plain", "default")
	waits.Annotations[api.DomainKey+"/pod"] = "db"
	now := metav1.Now()
	waits.DeletionTimestamp, plain.DeletionTimestamp = &now, &now
	waits.Finalizers = []string{"other.example/a", api.PodFinalizer}
	lives.Finalizers = []string{api.PodFinalizer}
	plain.Finalizers = []string{"other.example/a"}
	c := startCacheWith(t, fake.NewClientset(waits, lives, plain), annotated)
	want := []DeletedPod{{agentapi.PodRef{Namespace: "vms", Name: "vm-1", UID: "uid-1"},
		[]string{"db"}}}
	if diff := cmp.Diff(want, c.Deleted()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	// Informers may transform an object twice.
	kept, err := trimPod(testNode)(waits)
	if err != nil {
		t.Fatal(err)
	}
	again, err := trimPod(testNode)(kept)
	if diff := cmp.Diff(kept, again); diff != "" || err != nil {
		t.Errorf("%v, -once +twice\n%s", err, diff)
	}
}
