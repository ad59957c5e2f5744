package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// PodCgroupExists reports whether the node has a cgroup of the pod with this UID. kubelet makes it
// before the pod's first container, and removes it after the end of the last.
func (k *LinuxKernel) PodCgroupExists(uid string) (bool, error) {
	dirs := []string{"/"}
	for next := 0; next < len(dirs); next++ {
		if len(dirs) > maxCgroups {
			return false, fmt.Errorf("more than %d cgroups outside of pods", maxCgroups)
		}
		entries, err := os.ReadDir(filepath.Join(k.cgroup, dirs[next]))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("find the cgroup of pod %s: %w", uid, err)
		}
		for _, e := range entries {
			switch name := e.Name(); {
			case !e.IsDir():
			case isPodCgroup(name, uid):
				return true, nil
			case !isAnyPodCgroup(name):
				dirs = append(dirs, path.Join(dirs[next], name))
			}
		}
	}
	return false, nil
}

// isPodCgroup reports whether kubelet names the cgroup of a pod so: poduid with cgroupfs, and
// kubepods-burstable-poduid.slice with systemd, where each hyphen of the UID is an underscore.
func isPodCgroup(name, uid string) bool {
	return name == "pod"+uid ||
		strings.HasSuffix(name, "-pod"+strings.ReplaceAll(uid, "-", "_")+".slice")
}

func isAnyPodCgroup(name string) bool {
	return strings.HasPrefix(name, "pod") ||
		strings.Contains(name, "-pod") && strings.HasSuffix(name, ".slice")
}
