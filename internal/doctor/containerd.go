package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
)

const askAsRoot = "run as root"

// containerd looks at the container runtime's version.
func containerd(_ context.Context, s *survey) finding {
	switch {
	case errors.Is(s.runtimeErr, fs.ErrPermission):
		return finding{Unknown, s.runtimeErr.Error(), "only root may ask the runtime", askAsRoot}
	case errors.Is(s.runtimeErr, errNotAsked):
		return finding{Unknown, "not asked", "the runtime's version is not known", ""}
	case s.runtimeErr != nil && slices.Contains(s.config.disabledPlugins, "cri"):
		return finding{Problem, "containerd's configuration has disabled_plugins with cri", "kubelet cannot use this containerd",
			`take "cri" out of disabled_plugins, and restart containerd`}
	case s.runtimeErr != nil:
		return finding{Problem, s.runtimeErr.Error(), "no container runtime answers CRI: nothing can be created",
			"start containerd, or say where it listens: --runtime-endpoint"}
	}
	return containerdVersion(s)
}

func containerdVersion(s *survey) finding {
	found := s.runtime.Name + " " + s.runtime.Version
	v, ok := s.containerd()
	switch {
	case s.runtime.Name != "containerd":
		return finding{Unknown, found, "Mooring is tested with containerd only", "see docs/install.md"}
	case !ok:
		return finding{Unknown, found, "not a version that is understood", ""}
	case !v.AtLeast(version.MustParseGeneric("2.0")):
		return finding{Problem, found, "not supported: NRI is off by default, and pods cannot require the agent", "upgrade to containerd 2.2 or later"}
	case !v.AtLeast(version.MustParseGeneric("2.2")):
		return finding{Note, found, "works; a pod cannot require the agent, so launchers are created without their limits while it is away",
			"upgrade to containerd 2.2 or later"}
	}
	return finding{OK, found, "has NRI, and lets pods require the agent", ""}
}

// nriVersions are those that releases of containerd have, newest first, by go.mod.
func nriVersions() []struct{ containerd, nri string } {
	return []struct{ containerd, nri string }{
		{"2.4.2", "0.12.3"}, {"2.3.0", "0.12.0"}, {"2.2.1", "0.11.0"}, {"2.2.0", "0.10.0"}, {"2.1.0", "0.8.0"},
	}
}

// nriVersion says which NRI a containerd has, as far as releases tell.
func nriVersion(containerd *version.Version) (text string, exact *version.Version) {
	for _, known := range nriVersions() {
		release := version.MustParseGeneric(known.containerd)
		switch {
		case containerd.EqualTo(release):
			return "NRI " + known.nri, version.MustParseGeneric(known.nri)
		case containerd.AtLeast(release):
			return "NRI " + known.nri + " or later", nil
		}
	}
	return "an NRI before 0.8.0", nil
}

// failurePolicy says what becomes of a request that the agent does not answer in
// time. FailurePolicy came with NRI 0.12.4.
func failurePolicy(_ context.Context, s *survey) finding {
	const means = "when the agent hangs, the request that it does not answer creates its container without limits, " +
		"even where the pod requires the agent; the ones after it are refused. What slipped through is found later"
	const mend = "set `memlock.repair: prlimit` in the policy, so that it is repaired; a containerd that is built with NRI 0.12.4 or later refuses it"
	v, ok := s.containerd()
	if !ok {
		return finding{Unknown, "containerd's version is not known", "with NRI 0.12.4 or later, a request that the agent does not answer is refused", ""}
	}
	text, exact := nriVersion(v)
	if exact != nil || !v.AtLeast(version.MustParseGeneric("2.4.2")) {
		return finding{Note, text + ", without FailurePolicy", means, mend}
	}
	return finding{Unknown, cmp.Or(text, "NRI"), fmt.Sprintf("before 0.12.4: %s", means), mend}
}
