package doctor

import (
	"context"
	"errors"
	"io/fs"

	"k8s.io/apimachinery/pkg/util/version"
)

// kernel checks the kernel's release. The agent needs openat2(2) of 5.6. The tracker needs 5.15.
// Linux 5.16 raised the default of RLIMIT_MEMLOCK from 64 KiB to 8 MiB.
func kernel(_ context.Context, s *survey) finding {
	release, err := s.read("/proc/sys/kernel/osrelease")
	if err != nil {
		return finding{
			Unknown,
			err.Error(),
			"the kernel's release cannot be read",
			"mount procfs at /proc",
		}
	}
	v, err := version.ParseGeneric(release)
	switch {
	case err != nil:
		return finding{Unknown, release, "not a release number", ""}
	case !v.AtLeast(version.MustParseGeneric("5.6")):
		return finding{
			Problem, release,
			"the agent does not start on kernels before 5.6: they have no openat2(2)",
			"upgrade the kernel to 5.15 or later",
		}
	case !v.AtLeast(version.MustParseGeneric("5.15")):
		return finding{
			Note, release, "memory-lock limits and cgroup settings work; VM processes are not " +
				"tracked: that needs 5.15. Containers inherit a memory-lock limit of 64 KiB " +
				"unless the runtime's unit sets another",
			"upgrade the kernel to 5.15 or later",
		}
	case !v.AtLeast(version.MustParseGeneric("5.16")):
		return finding{
			Note, release,
			"works; containers inherit a memory-lock limit of 64 KiB unless the runtime's unit " +
				"sets another",
			"",
		}
	}
	return finding{OK, release, "has all features that Mooring uses", ""}
}

// btf checks for the kernel's type information.
func btf(_ context.Context, s *survey) finding {
	const path = "/sys/kernel/btf/vmlinux"
	f, err := s.Root.Open(fsPath(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return finding{
			Note, "no " + path,
			"memory-lock limits and cgroup settings work; VM processes are not tracked",
			"use a kernel built with CONFIG_DEBUG_INFO_BTF=y",
		}
	case err != nil:
		return finding{
			Unknown,
			path + ": " + withoutPath(err).Error(),
			"the tracker of VM processes needs it",
			asRoot,
		}
	}
	f.Close()
	return finding{
		OK,
		path,
		"the agent can load its eBPF programs without the kernel's headers",
		"",
	}
}
