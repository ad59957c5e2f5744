package plugin_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/plugin"
)

func withSidecar(uid string) *nri.PodSandbox {
	return newPod(uid, map[string]string{api.SidecarKey: "shim"})
}

// A sidecar gets the pod's directory before its launcher starts, and nothing else.
func TestSidecar(t *testing.T) {
	n := newNode(t, policy.Enforce)
	pod := withSidecar("u1")
	a, err := n.create(pod, newContainer(pod, "shim"))
	must(t, err)
	if len(a.GetRlimits()) != 0 || a.GetLinux() != nil || len(a.GetMounts()) != 3 ||
		a.GetMounts()[0].GetDestination() != plugin.MountPoint {
		t.Errorf("adjustment %v", a)
	}
	if !slices.Equal(n.dirs.made, []string{"u1"}) {
		t.Errorf("directories %v", n.dirs.made)
	}
	if len(n.registry.List()) != 0 {
		t.Error("the sidecar is taken for a launcher")
	}
}

func TestNoSidecar(t *testing.T) {
	plain := withSidecar("u1")
	delete(plain.Annotations, api.LauncherKey)
	itself := withSidecar("u1")
	itself.Annotations[api.SidecarKey] = "compute"
	for name, tt := range map[string]struct {
		mode      policy.Mode
		pod       *nri.PodSandbox
		container string
		refused   bool
	}{
		"another container":         {policy.Enforce, withSidecar("u1"), "log", false},
		"of a pod without launcher": {policy.Enforce, plain, "shim", false},
		"observe mode":              {policy.Observe, withSidecar("u1"), "shim", false},
		"the launcher itself":       {policy.Enforce, itself, "compute", true},
	} {
		n := newNode(t, tt.mode)
		a, err := n.create(tt.pod, newContainer(tt.pod, tt.container))
		if a != nil || (err != nil) != tt.refused || len(n.dirs.made) != 0 {
			t.Errorf("%s: %v, %v, directories %v", name, a, err, n.dirs.made)
		}
	}
}

// A pod has two sandboxes for a while after the death of the first one.
func TestSidecarKeepsItsDirectory(t *testing.T) {
	n := newNode(t, policy.Enforce)
	old := withSidecar("u1")
	fresh := withSidecar("u1")
	fresh.Id = "sandbox-new"
	shim := newContainer(fresh, "shim")
	_, err := n.create(old, newContainer(old, "compute"))
	must(t, err)
	_, err = n.create(fresh, shim)
	must(t, err)
	must(t, n.RemovePodSandbox(t.Context(), old))
	if len(n.dirs.made) == 0 {
		t.Fatal("the directory that the new sidecar sees is deleted")
	}
	must(t, n.RemoveContainer(t.Context(), fresh, shim))
	must(t, n.RemovePodSandbox(t.Context(), fresh))
	if len(n.dirs.made) != 0 {
		t.Errorf("directories %v are left", n.dirs.made)
	}
}

func TestSidecarWithoutDirectory(t *testing.T) {
	n := newNode(t, policy.Enforce)
	n.dirs.fail = errors.New("no space left")
	pod := withSidecar("u1")
	if _, err := n.create(pod, newContainer(pod, "shim")); err == nil ||
		!strings.Contains(err.Error(), `container "shim"`) {
		t.Errorf("error %v", err)
	}
}
