// Command release makes the files of a release: container images and programs for each
// architecture, the Helm chart, SBOMs, a krew manifest, notes and checksums. It publishes nothing.
//
//	go run ./hack/release --version=v0.2.0 [--registry=REGISTRY] [--out=DIR] [--snapshot]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

// release is one run of the command. All steps write below out.
type release struct {
	version  string // with the leading v
	registry string
	out      string
	snapshot bool      // of a state that is no release: no tag, no section, or changed files
	time     time.Time // of the commit: the time of all files in archives
	log      *slog.Logger
}

func main() {
	r := release{log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	flag.StringVar(&r.version, "version", "", "version with a leading v, such as v0.2.0")
	flag.StringVar(&r.registry, "registry", "", "prefix of the images' names, without the slash")
	flag.StringVar(&r.out, "out", "", "directory for the files (default: bin/release/VERSION)")
	flag.BoolVar(&r.snapshot, "snapshot", false, "make the files of a state that is no release: "+
		"with uncommitted changes, without the version's tag or section of CHANGELOG.md")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := r.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run makes all files. The checksums come last.
func (r *release) run(ctx context.Context) error {
	if err := checkVersion(r.version); err != nil {
		return err
	}
	if r.out == "" {
		r.out = filepath.Join("bin", "release", r.version)
	}
	if err := errors.Join(checkOut(r.out), r.checkSource(ctx)); err != nil {
		return err
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	var err error
	if r.time, err = commitTime(ctx); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"notes", r.writeNotes},
		{"programs", r.buildPrograms},
		{"run the programs", r.tryPrograms},
		{"SBOMs", r.writeSBOMs},
		{"archives of the CLI", r.writeArchives},
		{"krew manifest", r.writeKrewManifest},
		{"images", r.writeImages},
		{"chart", r.packageChart},
		{"remove the programs", func(context.Context) error { return os.RemoveAll(r.programs()) }},
		{"checksums", func(context.Context) error { return writeChecksums(r.out) }},
	} {
		r.log.Info(step.name)
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	r.log.Info("the release is complete", "directory", r.out)
	return nil
}

// checkOut refuses a directory with files that are not of an earlier release.
func checkOut(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if _, known := os.Stat(filepath.Join(dir, checksumsFile)); err == nil && known != nil {
		err = fmt.Errorf("it has files and no %s: want a new or empty directory, or one of an "+
			"earlier release", checksumsFile)
	}
	if err != nil {
		return fmt.Errorf("--out %q: %w", dir, err)
	}
	return nil
}

// checkVersion wants a semantic version with a leading v. Helm requires one, and build metadata
// cannot be part of an image's tag.
func checkVersion(text string) error {
	v, err := version.ParseSemantic(text)
	if err != nil || !strings.HasPrefix(text, "v") || v.BuildMetadata() != "" {
		return fmt.Errorf("--version %q: want a semantic version with a leading v and without "+
			"build metadata, such as v0.2.0", text)
	}
	return nil
}
