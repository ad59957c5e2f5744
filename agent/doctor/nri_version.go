package doctor

import (
	"context"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/util/version"
)

const nriModule = "github.com/containerd/nri"

// nriRelease is the release of NRI that the runtime was built with.
type nriRelease struct {
	text  string
	exact *version.Version // nil for a range of releases
}

// nriOf returns the runtime's NRI. It reads the module list in the runtime's program.
// Distributions build without the list: then the release of containerd decides.
func (s *survey) nriOf(containerd *version.Version) nriRelease {
	if s.BuildInfo != nil && s.runtime.PID != 0 {
		if info, err := s.BuildInfo(s.runtime.PID); err == nil {
			if v := moduleVersion(info, nriModule); v != nil {
				return nriRelease{"NRI " + v.String(), v}
			}
		}
	}
	return nriOfRelease(containerd)
}

// moduleVersion returns nil for a module that is missing or has no release number.
func moduleVersion(info *debug.BuildInfo, module string) *version.Version {
	for _, m := range info.Deps {
		if m.Path != module {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if v, err := version.ParseSemantic(m.Version); err == nil {
			return v
		}
	}
	return nil
}

// nriOfRelease maps a release of containerd to the NRI in its go.mod.
func nriOfRelease(containerd *version.Version) nriRelease {
	for _, known := range []struct{ containerd, nri string }{
		{"2.4.2", "0.12.3"},
		{"2.3.0", "0.12.0"},
		{"2.2.1", "0.11.0"},
		{"2.2.0", "0.10.0"},
		{"2.1.0", "0.8.0"},
		{"1.7.24", "0.6.1"},
	} {
		release := version.MustParseGeneric(known.containerd)
		switch {
		case containerd.EqualTo(release):
			return nriRelease{"NRI " + known.nri, version.MustParseGeneric(known.nri)}
		case containerd.AtLeast(release):
			return nriRelease{"NRI " + known.nri + " or later", nil}
		}
	}
	return nriRelease{"an NRI before 0.8.0", nil}
}

// failurePolicy checks whether a request without an answer of the agent fails. NRI has
// FailurePolicy since 0.12.4.
func failurePolicy(_ context.Context, s *survey) finding {
	const means = "when the agent hangs, its unanswered request creates a container without " +
		"limits, " +
		"even where the pod requires the agent; later requests are refused. " +
		"The agent finds such containers afterwards"
	const mend = "set `memlock.repair: prlimit` in the policy to repair them; " +
		"a containerd built with NRI 0.12.4 or later refuses the request"
	v, ok := s.containerd()
	if !ok {
		return finding{
			Unknown, "containerd's version is not known",
			"with NRI 0.12.4 or later, a request without an answer is refused", "",
		}
	}
	has := s.nriOf(v)
	switch {
	case has.exact != nil && has.exact.AtLeast(version.MustParseGeneric("0.12.4")):
		return finding{
			OK,
			has.text,
			"has FailurePolicy: a request that the agent does not answer is refused",
			"",
		}
	case has.exact != nil || !v.AtLeast(version.MustParseGeneric("2.4.2")):
		return finding{Note, has.text + ", without FailurePolicy", means, mend}
	}
	return finding{Unknown, has.text, "before 0.12.4: " + means, mend}
}
