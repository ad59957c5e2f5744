// Package buildinfo says which build of the project runs.
package buildinfo

import (
	"cmp"
	"fmt"
	"runtime/debug"
)

// Info names a build.
type Info struct {
	Version   string `json:"version"`  // a release, or "devel"
	Revision  string `json:"revision"` // commit, with "-dirty" for a changed tree; "unknown" outside a repository
	GoVersion string `json:"goVersion"`
}

// Read returns what the Go toolchain stamped into the program. version, from
// -ldflags "-X main.version=v1.2.3", wins where it is not empty.
func Read(version string) Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return from(build, version)
}

func from(build *debug.BuildInfo, version string) Info {
	stamped := build.Main.Version
	if stamped == "(devel)" {
		stamped = ""
	}
	settings := map[string]string{}
	for _, setting := range build.Settings {
		settings[setting.Key] = setting.Value
	}
	revision := cmp.Or(settings["vcs.revision"], "unknown")
	if settings["vcs.modified"] == "true" {
		revision += "-dirty"
	}
	return Info{
		Version:   cmp.Or(version, stamped, "devel"),
		Revision:  revision,
		GoVersion: build.GoVersion,
	}
}

// String returns the build in one line.
func (i Info) String() string {
	return fmt.Sprintf("%s (commit %s, %s)", i.Version, i.Revision, i.GoVersion)
}
