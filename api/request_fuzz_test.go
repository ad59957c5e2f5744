package api

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"unicode"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/plugin"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// annotationLines writes annotations as lines of KEY=VALUE, for the fuzzer.
func annotationLines(text string) map[string]string {
	annotations := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		key, value, _ := strings.Cut(line, "=")
		annotations[key] = value
	}
	return annotations
}

func FuzzParse(f *testing.F) {
	f.Add("value.memlock.mooring.dev=1Gi\nrequires-lock.memlock.mooring.dev=true", "compute")
	f.Add("devices.memlock.mooring.dev=vfio=2,iommu\nguest-memory.memlock.mooring.dev/pod=1e30",
		"compute")
	f.Add("memory.high.cgroup.mooring.dev=9Gi\nio.max.cgroup.mooring.dev/container.compute=8:16 "+
		"rbps=1Mi", "compute")
	f.Add("launcher.mooring.dev=compute\napi-version.mooring.dev=v1alpha1\n"+
		"vcpus.resize.mooring.dev=4\ncpu-quota.resize.mooring.dev=none\n"+
		"cpu-shares.resize.mooring.dev=200", "")
	f.Add("grace-period.lifecycle.mooring.dev=90s\nwatchdog.lifecycle.mooring.dev=1m\n"+
		"domain.lifecycle.mooring.dev=vm", "a/b")
	f.Add("memory.resize.mooring.dev=-1\n/=\n.mooring.dev=\nmooring.dev/container.=\n"+
		"VALUE.MEMLOCK.MOORING.DEV/pod=1", "\xff")
	f.Fuzz(func(t *testing.T, text, container string) {
		annotations := annotationLines(text)
		before := maps.Clone(annotations)
		request, err := Parse(annotations, container)
		if !maps.Equal(before, annotations) {
			t.Error("the annotations were changed")
		}
		if err != nil {
			checkError(t, err)
			return
		}
		if diff := cmp.Diff(request, mustParse(t, canonical(request), container)); diff != "" {
			t.Errorf("%q reads differently when it is written out again: %s", text, diff)
		}
		launcher, ok, err := Launcher(annotations)
		if err != nil || ok != (launcher != "") {
			t.Errorf("Parse takes %q, and Launcher says %q, %v, %v", text, launcher, ok, err)
		}
	})
}

// checkError checks that the error has the package's type and fits an Event.
func checkError(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*InvalidError](err); !ok {
		t.Errorf("got %T: %v", err, err)
	}
	bad := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
	if text := err.Error(); len(text) > 20_000 || strings.ContainsFunc(text, bad) {
		t.Errorf("%d bytes: %.300q", len(text), text)
	}
}

func mustParse(t *testing.T, annotations map[string]string, container string) Request {
	t.Helper()
	r, err := Parse(annotations, container)
	if err != nil {
		t.Error(err)
	}
	return r
}

// canonical returns the annotations that ask for a request.
func canonical(r Request) map[string]string {
	a := map[string]string{}
	set := func(key string, there bool, value func() string) {
		if there {
			a[key] = value()
		}
	}
	set(RequiresLockKey, r.RequiresLock != nil, func() string {
		return map[bool]string{true: "true", false: "false"}[*r.RequiresLock]
	})
	set(ValueKey, r.Value != nil, func() string { return r.Value.String() })
	set(GuestMemoryKey, r.GuestMemory != nil, func() string {
		return Bytes(*r.GuestMemory).String()
	})
	set(OverheadKey, r.Overhead != nil, func() string { return r.Overhead.String() })
	set(DevicesKey, r.Devices.Any(), func() string { return r.Devices.String() })
	set(GracePeriodKey, r.GracePeriod != nil, func() string { return r.GracePeriod.String() })
	set(WatchdogKey, r.Watchdog != nil, func() string { return r.Watchdog.String() })
	set(DomainKey, r.Domain != "", func() string { return r.Domain })
	maps.Copy(a, r.Size.Annotations())
	for _, s := range r.Cgroup {
		a[s.File+CgroupSuffix] = s.Value
	}
	return a
}

// Effective does not call NRI's function, so that users of this package do not depend on NRI.
func TestPrecedenceIsNRIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scopes := rapid.SliceOf(rapid.SampledFrom([]string{"", "/pod", "/container.a",
			"/container.b", "/container."})).Draw(t, "scopes")
		annotations := map[string]string{}
		for _, scope := range scopes {
			annotations[ValueKey+scope] = "at" + scope
		}
		container := rapid.SampledFrom([]string{"a", "b", "c", ""}).Draw(t, "container")
		key, value, ok := Effective(annotations, ValueKey, container)
		nriValue, nriOK := plugin.GetEffectiveAnnotation(&nri.PodSandbox{Annotations: annotations},
			ValueKey, container)
		if value != nriValue || ok != nriOK || ok != (key != "") || ok &&
			annotations[key] != value {
			t.Fatalf("%v for %q: key %q, value %q, %v, want as NRI %q, %v", annotations, container,
				key, value, ok, nriValue, nriOK)
		}
	})
}

func FuzzLauncher(f *testing.F) {
	f.Add("launcher.mooring.dev=compute")
	f.Add("launcher.mooring.dev/pod=compute\nlauncher.mooring.dev/container.x=")
	f.Fuzz(func(t *testing.T, text string) {
		name, ok, err := Launcher(annotationLines(text))
		if ok != (name != "") || ok && err != nil {
			t.Errorf("%q: got %q, %v, %v", text, name, ok, err)
		}
		if ok && checkContainerName(name) != nil {
			t.Errorf("%q: got %q", text, name)
		}
		if err != nil {
			checkError(t, err)
		}
	})
}
