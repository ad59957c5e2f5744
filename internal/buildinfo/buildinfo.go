// Package buildinfo reads version and revision of the running program.
package buildinfo

import (
	"cmp"
	"fmt"
	"runtime/debug"
)

// Info identifies a build.
type Info struct {
	Version string `json:"version"` // a release, or "devel"
	// commit, with "-dirty" for a changed tree; "unknown" outside a repository
	Revision  string `json:"revision"`
	GoVersion string `json:"goVersion"`
}

// Read returns the build information that the Go toolchain has put into the program. A
// non-empty version, from -ldflags "-X main.version=v1.2.3", replaces the toolchain's version.
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
