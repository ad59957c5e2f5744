package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// program builds a small static program.
func program(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	source, path := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// static are the recipes without packages.
func static() []recipe {
	return slices.DeleteFunc(recipes(), func(r recipe) bool { return r.libvirt })
}

func runWithoutOutput(t *testing.T, o options) error {
	t.Helper()
	return run(t.Context(), o, slog.New(slog.NewTextHandler(t.Output(), nil)))
}

// programs writes all programs into a new directory, with this modification time.
func programs(t *testing.T, content []byte, mode os.FileMode, then time.Time) string {
	t.Helper()
	dir := t.TempDir()
	for _, r := range static() {
		for _, name := range r.programs {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, content, mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, then, then); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// made makes images and returns their files' content.
func made(t *testing.T, bin string, of []recipe) map[string]string {
	t.Helper()
	o := options{bin: bin, out: t.TempDir(), registry: "registry.example.com/vm/", tag: "v1",
		arch: "amd64", only: strings.Join(names(of), ",")}
	if err := runWithoutOutput(t, o); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, r := range of {
		content, err := os.ReadFile(filepath.Join(o.out, r.name+".tar"))
		if err != nil {
			t.Fatal(err)
		}
		files[r.name] = string(content)
	}
	return files
}

func TestImagesAreReproducible(t *testing.T) {
	content := program(t)
	first := made(t, programs(t, content, 0o700, time.Unix(1, 0)), static())
	second := made(t, programs(t, content, 0o644, time.Unix(2_000_000_000, 0)), static())
	for name := range first {
		if first[name] != second[name] {
			t.Errorf("%s differs", name)
		}
	}
	other := made(t, programs(t, append(content, 0), 0o700, time.Unix(1, 0)), static())
	for name := range first {
		if first[name] == other[name] {
			t.Errorf("%s does not depend on its programs", name)
		}
	}
}

func TestImage(t *testing.T) {
	bin := programs(t, program(t), 0o700, time.Now())
	out := t.TempDir()
	o := options{bin: bin, out: out, tag: "latest", arch: "arm64",
		only: strings.Join(names(static()), ",")}
	if err := runWithoutOutput(t, o); err != nil {
		t.Fatal(err)
	}
	for _, r := range static() {
		image, err := tarball.ImageFromPath(filepath.Join(out, r.name+".tar"), nil)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != "arm64" || config.Config.User != r.user ||
			config.Config.Entrypoint[0] != folder+"/"+r.name {
			t.Errorf("%s: %s, user %q, %v", r.name, config.Architecture, config.Config.User,
				config.Config.Entrypoint)
		}
		layers, err := image.Layers()
		if err != nil || len(layers) != 1 {
			t.Fatalf("%d layers, %v", len(layers), err)
		}
		content, err := layers[0].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"usr/ 0755", "usr/local/ 0755", "usr/local/bin/ 0755"}
		for _, name := range slices.Sorted(slices.Values(r.programs)) {
			want = append(want, "usr/local/bin/"+name+" 0755")
		}
		if diff := cmp.Diff(want, listed(t, content)); diff != "" {
			t.Errorf("%s has (-want +got):\n%s", r.name, diff)
		}
	}
}

// listed lists the files of an archive with their modes. All must belong to root and have no time.
func listed(t *testing.T, archive io.Reader) (all []string) {
	t.Helper()
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("%s: %d:%d, %s", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		all = append(all, fmt.Sprintf("%s %#o", h.Name, h.Mode))
	}
}

// An image has no loader, so a program that needs one cannot start.
func TestProgramsMustBeStatic(t *testing.T) {
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	err = runWithoutOutput(t, options{bin: programs(t, shell, 0o700, time.Now()), out: t.TempDir(),
		tag: "latest"})
	if err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("got %v", err)
	}
	err = runWithoutOutput(t, options{bin: programs(t, []byte("#!/bin/sh\n"), 0o700, time.Now()),
		out: t.TempDir(), tag: "latest"})
	if err == nil || !strings.Contains(err.Error(), "is no program") {
		t.Errorf("got %v", err)
	}
	if err := runWithoutOutput(t, options{bin: t.TempDir(), out: t.TempDir(),
		tag: "latest"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without programs: %v", err)
	}
}

func TestOnly(t *testing.T) {
	o := options{bin: programs(t, program(t), 0o700, time.Now()), out: t.TempDir(), tag: "latest",
		arch: "amd64", only: "mooring-controller"}
	if err := runWithoutOutput(t, o); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(o.out, "*"))
	if err != nil || len(files) != 1 || filepath.Base(files[0]) != "mooring-controller.tar" {
		t.Errorf("made %v, %v", files, err)
	}
	o.only = "mooring-agent,agent"
	if err := runWithoutOutput(t, o); err == nil ||
		!strings.Contains(err.Error(),
			`--only "mooring-agent,agent": want some of `+
				`mooring-agent,mooring-controller,mooring-shim`) {
		t.Errorf("got %v", err)
	}
}

var runs = regexp.MustCompile(`(?s)"mooring\.image" \(list \. "(\w+)"\).*?command: \[` + folder +
	`/([a-z-]+)\]`)

// TestImagesContainThePrograms checks that the chart's programs are in their images.
func TestImagesContainThePrograms(t *testing.T) {
	templates, err := filepath.Glob("../../deploy/helm/mooring/templates/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, r := range recipes() {
		for _, program := range r.programs {
			has[r.name+" "+program] = true
		}
	}
	found := 0
	for _, path := range templates {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range runs.FindAllStringSubmatch(string(text), -1) {
			found++
			if !has["mooring-"+match[1]+" "+match[2]] {
				t.Errorf("%s runs %s, which the image mooring-%s lacks", path, match[2], match[1])
			}
		}
	}
	if found < 7 {
		t.Errorf("%d containers found", found)
	}
}
