package doctor

import (
	"context"
	"errors"
	"io/fs"

	"k8s.io/apimachinery/pkg/util/version"
)

// kernel looks at the release. 5.6 has openat2(2), which the agent needs; 5.15 is
// what the tracker needs; 5.16 raised the default of
// RLIMIT_MEMLOCK from 64 KiB to 8 MiB.
func kernel(_ context.Context, s *survey) finding {
	release, err := s.read("/proc/sys/kernel/osrelease")
	if err != nil {
		return finding{Unknown, err.Error(), "the kernel's release cannot be read", "mount procfs at /proc"}
	}
	v, err := version.ParseGeneric(release)
	switch {
	case err != nil:
		return finding{Unknown, release, "not a release that is understood", ""}
	case !v.AtLeast(version.MustParseGeneric("5.6")):
		return finding{Problem, release, "the agent does not start on kernels before 5.6: they have no openat2(2)", "upgrade the kernel to 5.15 or later"}
	case !v.AtLeast(version.MustParseGeneric("5.15")):
		return finding{Note, release, "memory locks and cgroup settings work; VM processes are not tracked, which takes 5.15, " +
			"and containers inherit a memory lock of 64 KiB unless the runtime's unit says otherwise", "upgrade the kernel to 5.15 or later"}
	case !v.AtLeast(version.MustParseGeneric("5.16")):
		return finding{Note, release, "works; containers inherit a memory lock of 64 KiB unless the runtime's unit says otherwise", ""}
	}
	return finding{OK, release, "has all that Mooring uses", ""}
}

// btf looks for the kernel's type information.
func btf(_ context.Context, s *survey) finding {
	const path = "/sys/kernel/btf/vmlinux"
	f, err := s.Root.Open(inside(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return finding{
			Note, "no " + path, "memory locks and cgroup settings work; VM processes are not tracked",
			"use a kernel that is built with CONFIG_DEBUG_INFO_BTF=y",
		}
	case err != nil:
		return finding{Unknown, path + ": " + cause(err).Error(), "tracking VM processes takes it", askAsRoot}
	}
	f.Close()
	return finding{OK, path, "eBPF programs that track VM processes can be loaded without the kernel's headers", ""}
}
