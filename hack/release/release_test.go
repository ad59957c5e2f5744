package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"sigs.k8s.io/yaml"
)

func newRelease(t *testing.T) *release {
	t.Helper()
	r := &release{version: "v0.2.0", out: t.TempDir(), time: time.Unix(1700000000, 0).UTC(),
		log: slog.New(slog.DiscardHandler)}
	if err := os.MkdirAll(r.programs(), 0o755); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCheckVersion(t *testing.T) {
	for text, want := range map[string]bool{
		"v0.2.0": true, "v1.0.0-rc.1": true, "": false, "0.2.0": false, "v0.2": false,
		"v0.2.0+build": false, "latest": false,
	} {
		err := checkVersion(text)
		if (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil && !strings.Contains(err.Error(), "--version") {
			t.Errorf("%q: %v does not name the flag", text, err)
		}
	}
}

func TestSection(t *testing.T) {
	const changelog = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [0.2.0] - 2026-12-01\n\n### " +
		"Added\n\n- a\n\n## [0.1.0]\n\n- old\n\n[Unreleased]: https://example.com\n"
	for name, want := range map[string]string{
		"Unreleased": "- new\n", "0.2.0": "### Added\n\n- a\n", "0.1.0": "- old\n",
	} {
		if got, found := section(changelog, name); got != want || !found {
			t.Errorf("%s: %q, %t, want %q", name, got, found, want)
		}
	}
	if got, found := section(changelog, "0.3.0"); found {
		t.Errorf("got %q", got)
	}
}

// TestChangelogHasNotes reads the project's own changelog.
func TestChangelogHasNotes(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	r := newRelease(t)
	r.version = "v0.1.0"
	if notes, err := r.notes(string(text)); err != nil || len(notes) < 100 ||
		strings.Contains(notes, "]: https") {
		t.Errorf("%v: %q", err, notes)
	}
	if _, found := section(string(text), "Unreleased"); !found {
		t.Error("there is no section Unreleased")
	}
}

// TestNotes wants the version's own section with text. Only a snapshot may use Unreleased.
func TestNotes(t *testing.T) {
	const changelog = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [0.2.0]\n\n## [0.1.0]\n\n" +
		"- old\n"
	for version, want := range map[string][2]string{ // release, snapshot
		"v0.1.0": {"- old\n", "- old\n"}, "v0.2.0": {"", "- new\n"}, "v0.3.0": {"", "- new\n"},
	} {
		for i, snapshot := range []bool{false, true} {
			r := release{version: version, snapshot: snapshot}
			got, err := r.notes(changelog)
			if got != want[i] || (err != nil) != (want[i] == "") {
				t.Errorf("%s, snapshot %t: %q, %v, want %q", version, snapshot, got, err, want[i])
			}
			if err != nil && !strings.Contains(err.Error(), "want a section ["+version[1:]+"]") {
				t.Error(err)
			}
		}
	}
}

// TestTryPrograms has programs that print the version, and no emulator for another architecture.
func TestTryPrograms(t *testing.T) {
	r := newRelease(t)
	for _, p := range nodePlatforms() {
		for _, name := range []string{"mooring-agent", "mooring-controller"} {
			path := r.program(p, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			err := os.WriteFile(path, []byte("#!/bin/sh\necho "+r.version+"\n"), 0o755)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("PATH", t.TempDir())
	t.Setenv("MOORING_CI_REQUIRE", "")
	if err := r.tryPrograms(t.Context()); err != nil {
		t.Error(err)
	}
	t.Setenv("MOORING_CI_REQUIRE", "1")
	err := r.tryPrograms(t.Context())
	if err == nil || !strings.Contains(err.Error(), "install qemu-user") {
		t.Errorf("got %v, want an error with the remedy", err)
	}
}

// TestCheckSource uses a repository with one commit, with and without its tag and a changed file.
func TestCheckSource(t *testing.T) {
	t.Chdir(t.TempDir())
	git := func(args ...string) {
		t.Helper()
		args = append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)
		_, err := output(t.Context(), []string{"GIT_CONFIG_GLOBAL=/dev/null"}, "git", args...)
		if err != nil {
			t.Fatal(err)
		}
	}
	git("init", "--quiet")
	git("commit", "--quiet", "--allow-empty", "--message=one")
	check := func(step string, want ...string) {
		t.Helper()
		r := release{version: "v0.2.0"}
		err := r.checkSource(t.Context())
		if (err != nil) != (len(want) > 0) {
			t.Errorf("%s: %v", step, err)
		}
		for _, text := range want {
			if err != nil && !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, want %q in it", step, err, text)
			}
		}
		r.snapshot = true
		if err := r.checkSource(t.Context()); err != nil {
			t.Errorf("%s, as a snapshot: %v", step, err)
		}
	}
	check("no tag", "no tag v0.2.0")
	git("tag", "v0.2.0-rc.1")
	check("another tag", "no tag v0.2.0")
	git("tag", "v0.2.0")
	check("tagged")
	if err := os.WriteFile("new", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check("a new file", "uncommitted changes", "?? new")
}

// TestArchives packs programs and reads them back. Equal programs give equal archives.
func TestArchives(t *testing.T) {
	r := newRelease(t)
	t.Chdir("../..") // for LICENSE
	for _, p := range cliPlatforms() {
		path := r.program(p, cli)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("program of "+p.String()), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	sums := map[string]string{}
	for range 2 {
		if err := r.writeArchives(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, p := range cliPlatforms() {
			archive := r.archiveName(p)
			content := unpack(t, filepath.Join(r.out, archive))
			if got := content[cli+p.suffix()]; got != "program of "+p.String() ||
				!strings.Contains(content["LICENSE"], "Apache License") {
				t.Errorf("%s has %q", archive, got)
			}
			sum, err := checksum(filepath.Join(r.out, archive))
			if err != nil || sums[archive] != "" && sums[archive] != sum {
				t.Errorf("%s: %v, checksums %s and %s", archive, err, sums[archive], sum)
			}
			sums[archive] = sum
		}
	}
	checkKrewManifest(t, r, sums)
}

func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	if strings.HasSuffix(path, ".zip") {
		archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.File {
			text, err := archive.Open(f.Name)
			if err != nil {
				t.Fatal(err)
			}
			all[f.Name] = readAll(t, text)
		}
		return all
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(unzipped)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[header.Name] = readAll(t, archive)
	}
}

func readAll(t *testing.T, from io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkKrewManifest wants an archive with its checksum and its program for each platform.
func checkKrewManifest(t *testing.T, r *release, sums map[string]string) {
	t.Helper()
	if err := r.writeKrewManifest(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.out, "mooring.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var plugin krewPlugin
	if err := yaml.UnmarshalStrict(text, &plugin); err != nil {
		t.Fatal(err)
	}
	if plugin.Spec.Version != r.version || len(plugin.Spec.ShortDescription) > 50 ||
		len(plugin.Spec.Platforms) != len(cliPlatforms()) {
		t.Errorf("%+v", plugin)
	}
	for _, p := range plugin.Spec.Platforms {
		archive := filepath.Base(p.URI)
		if p.SHA256 == "" || sums[archive] != p.SHA256 {
			t.Errorf("%s has checksum %s, want %s", archive, p.SHA256, sums[archive])
		}
		if unpack(t, filepath.Join(r.out, archive))[p.Bin] == "" {
			t.Errorf("%s has no %s", archive, p.Bin)
		}
	}
}

func TestChecksums(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b", "a"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeChecksums(dir); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, checksumsFile))
	if err != nil {
		t.Fatal(err)
	}
	const want = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  a\n" +
		"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d  b\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("checksums (-want +got):\n%s", diff)
	}
}

// TestOCIArchive writes an image of two platforms and reads its index back.
func TestOCIArchive(t *testing.T) {
	r := newRelease(t)
	r.registry = "registry.example.com/mooring/"
	index, err := random.Index(64, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(r.out, "image.tar.gz")
	if err := r.writeOCIArchive(file, "mooring-agent", index); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range unpack(t, file) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%+v, %v", manifest, err)
	}
	want, err := index.Digest()
	if got := manifest.Manifests[0]; err != nil || got.Digest != want ||
		got.Annotations["io.containerd.image.name"] !=
			"registry.example.com/mooring/mooring-agent:v0.2.0" {
		t.Errorf("%+v, %v, want %s", got, err, want)
	}
}

func TestCheckOut(t *testing.T) {
	dir := t.TempDir()
	for _, fine := range []string{dir, filepath.Join(dir, "new")} {
		if err := checkOut(fine); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkOut(dir); err == nil || !strings.Contains(err.Error(), checksumsFile) {
		t.Errorf("a directory with other files: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, checksumsFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkOut(dir); err != nil {
		t.Errorf("an earlier release: %v", err)
	}
}
