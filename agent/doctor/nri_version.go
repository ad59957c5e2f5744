package doctor

import (
	"context"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/util/version"
)

const nriModule = "github.com/containerd/nri"

// nriRelease is the NRI that the runtime has in it.
type nriRelease struct {
	text string
	// exact is nil where it is not known to the last digit.
	exact *version.Version
}

// nriOf finds out which NRI the runtime has: what Go noted in its program, or else
// what releases of containerd have. Distributions build without the former.
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

// moduleVersion is nil where the program does not tell.
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

// nriOfRelease knows the go.mod of containerd's releases.
func nriOfRelease(containerd *version.Version) nriRelease {
	for _, known := range []struct{ containerd, nri string }{
		{"2.4.2", "0.12.3"}, {"2.3.0", "0.12.0"}, {"2.2.1", "0.11.0"}, {"2.2.0", "0.10.0"}, {"2.1.0", "0.8.0"}, {"1.7.24", "0.6.1"},
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
	has := s.nriOf(v)
	switch {
	case has.exact != nil && has.exact.AtLeast(version.MustParseGeneric("0.12.4")):
		return finding{OK, has.text, "has FailurePolicy: a request that the agent does not answer is refused", ""}
	case has.exact != nil || !v.AtLeast(version.MustParseGeneric("2.4.2")):
		return finding{Note, has.text + ", without FailurePolicy", means, mend}
	}
	return finding{Unknown, has.text, "before 0.12.4: " + means, mend}
}
