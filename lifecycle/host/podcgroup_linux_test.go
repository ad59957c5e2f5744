package host

import (
	"os"
	"path/filepath"
	"testing"
)

// The names are as of kubelet with both cgroup drivers, and of kind.
func TestPodCgroupExists(t *testing.T) {
	const uid = "3f4c1f0e-8a63-4f5c-9d0c-1a2b3c4d5e6f"
	const slice = "kubepods-burstable-pod3f4c1f0e_8a63_4f5c_9d0c_1a2b3c4d5e6f.slice"
	for dir, want := range map[string]bool{
		"kubepods/pod" + uid:                                                     true,
		"kubepods/besteffort/pod" + uid + "/c1":                                  true,
		"kubepods.slice/kubepods-burstable.slice/" + slice:                       true,
		"kubelet.slice/kubelet-kubepods.slice/kubelet-" + slice:                  true,
		"kubepods/pod" + uid[1:]:                                                 false,
		"kubepods/pod" + uid + "0":                                               false,
		"kubepods.slice/kubepods-pod3f4c1f0e_8a63_4f5c_9d0c_1a2b3c4d5e6f0.slice": false,
		"kubepods/podother/pod" + uid:                                            false, // a container's own
		"machine.slice":                                                          false,
	} {
		k := &LinuxKernel{cgroup: t.TempDir()}
		if err := os.MkdirAll(filepath.Join(k.cgroup, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if got, err := k.PodCgroupExists(uid); err != nil || got != want {
			t.Errorf("%s: %t, %v, want %t", dir, got, err, want)
		}
	}
	k := &LinuxKernel{cgroup: filepath.Join(t.TempDir(), "file")}
	if err := os.WriteFile(k.cgroup, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := k.PodCgroupExists(uid); err == nil {
		t.Errorf("an unreadable hierarchy: %t", got)
	}
}
