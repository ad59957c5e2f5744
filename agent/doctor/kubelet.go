package doctor

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"sigs.k8s.io/yaml"
)

// kubelet reports kubelet's version and cgroup driver.
func kubelet(ctx context.Context, s *survey) finding {
	pids := s.processes("kubelet")
	switch {
	case len(pids) == 0:
		return finding{
			Note,
			"no process called kubelet",
			"its version and cgroup driver are not known",
			"",
		}
	case len(pids) > 1:
		return finding{
			Unknown,
			"several processes called kubelet",
			"one of them may run in a container",
			"",
		}
	}
	ver, err := s.kubeletVersion(ctx, pids[0])
	driver := s.cgroupDriver(pids[0])
	if err != nil {
		return finding{
			Unknown,
			"runs, cgroup driver " + driver,
			"its version is not known: " + err.Error(),
			asRoot,
		}
	}
	return finding{
		OK, ver + ", cgroup driver " + driver,
		"creates the pods' cgroups, and owns the files that docs/reference/annotations.md names",
		"",
	}
}

// kubeletVersion runs the program of a kubelet process with --version.
func (s *survey) kubeletVersion(ctx context.Context, pid int) (string, error) {
	if s.Version == nil {
		return "", errNotChecked
	}
	exe, err := fs.ReadLink(s.Root, fsPath(procPath(pid, "exe")))
	if s.InPod && errors.Is(err, fs.ErrPermission) { // the link needs CAP_SYS_PTRACE
		exe, err = s.commandPath(pid, "kubelet")
		pid = 0
	}
	if err != nil {
		return "", err
	}
	out, err := s.Version(ctx, exe, pid)
	return strings.TrimPrefix(strings.TrimSpace(out), "Kubernetes "), err
}

// cgroupDriver returns kubelet's driver: by the cgroup that kubelet made, else by its
// configuration.
func (s *survey) cgroupDriver(pid int) string {
	for i, pods := range kubepods() {
		if s.exists(cgroupRoot + "/" + pods) {
			return []string{"systemd", "cgroupfs"}[i]
		}
	}
	path := s.commandFlag(pid, "--config")
	content, err := s.read(path)
	if path == "" || err != nil {
		return "unknown"
	}
	var c struct {
		CgroupDriver string `json:"cgroupDriver"`
	}
	if yaml.Unmarshal([]byte(content), &c) != nil || c.CgroupDriver == "" {
		return "unknown"
	}
	return c.CgroupDriver
}
