package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFrom(t *testing.T) {
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"},
			{Key: "vcs.modified", Value: modified}}
	}
	tests := map[string]struct {
		build   debug.BuildInfo
		version string
		want    Info
	}{
		"nothing known": {want: Info{Version: "devel", Revision: "unknown"}},
		"stamped by the tool": {debug.BuildInfo{Main: debug.Module{Version: "v1.0.0"},
			Settings: vcs("false")}, "", Info{"v1.0.0", "abc", ""}},
		"a changed tree": {debug.BuildInfo{Main: debug.Module{Version: "(devel)"},
			Settings: vcs("true")}, "", Info{"devel", "abc-dirty", ""}},
		"stamped by hand": {debug.BuildInfo{GoVersion: "go1",
			Main: debug.Module{Version: "v1.0.0"}}, "v2", Info{"v2", "unknown", "go1"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, from(&tt.build, tt.version)); diff != "" {
				t.Errorf("build (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRead(t *testing.T) {
	got := Read("v3")
	if got.Version != "v3" || got.GoVersion != runtime.Version() {
		t.Errorf("Read = %+v", got)
	}
	if want := "v3 (commit " + got.Revision + ", " + runtime.Version() + ")"; got.String() != want {
		t.Errorf("String = %q, want %q", got, want)
	}
}
