package plugin

import (
	"strings"
	"testing"
)

func TestCgroupOf(t *testing.T) {
	for _, tt := range []struct{ path, want string }{
		{"/kubepods/burstable/pod1/c1", "/kubepods/burstable/pod1/c1"},
		{"kubepods/pod1/c1", "/kubepods/pod1/c1"},
		{"kubepods-burstable-pod1_2.slice:cri-containerd:c1",
			"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/cri-containerd-c1.scope"},
		{"kubepods.slice:crio:c1", "/kubepods.slice/crio-c1.scope"},
		{"system.slice::c1", "/system.slice/c1.scope"},
		{":runc:c1", "/runc-c1.scope"},
		{"-.slice:runc:c1", "/runc-c1.scope"},
		{"a.slice:x:b.slice", "/a.slice/b.slice"},
	} {
		if got, err := cgroupOf(tt.path); err != nil || got != tt.want {
			t.Errorf("cgroupOf(%q) = %q, %v, want %q", tt.path, got, err, tt.want)
		}
	}
	for _, bad := range []string{"", "a:b", "nothing:runc:c1", "a.slice:runc:"} {
		if got, err := cgroupOf(bad); err == nil || bad != "" &&
			!strings.Contains(err.Error(), bad) {
			t.Errorf("cgroupOf(%q) = %q, %v, want an error that names it", bad, got, err)
		}
	}
}
