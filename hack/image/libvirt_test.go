package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

func withLibvirt() []recipe {
	return slices.DeleteFunc(recipes(), func(r recipe) bool { return !r.libvirt })
}

// dynamic returns a program of this machine and its C library. The program contains the name of
// libvirt's library.
func dynamic(t *testing.T) (program, libc []byte) {
	t.Helper()
	program, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"/lib/*/libc.so.6", "/lib64/libc.so.6"} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			if libc, err = os.ReadFile(found[0]); err != nil {
				t.Fatal(err)
			}
			return append(program, libvirtSO...), libc
		}
	}
	t.Skip("missing: libc.so.6")
	return nil, nil
}

// entry is a file of packages in a tar archive.
type entry struct {
	tar.Header
	content []byte
}

func unpacked(libc []byte) []entry {
	return []entry{
		{tar.Header{Name: "./usr/lib/multiarch/libc.so.6", Typeflag: tar.TypeReg, Mode: 0o755},
			libc},
		{tar.Header{Name: "./usr/lib/multiarch/libvirt.so.0", Typeflag: tar.TypeSymlink,
			Linkname: "libvirt.so.0.1", Mode: 0o777}, nil},
		{tar.Header{Name: "./usr/lib/multiarch/libvirt.so.0.1", Typeflag: tar.TypeReg, Mode: 0o644},
			libc},
		{tar.Header{Name: "./usr/share/doc/libc6/", Typeflag: tar.TypeDir, Mode: 0o755}, nil},
		{tar.Header{Name: "./usr/share/doc/libc6/copyright", Typeflag: tar.TypeReg, Mode: 0o644},
			[]byte("free")},
		{tar.Header{Name: "./usr/share/doc/libc6/changelog", Typeflag: tar.TypeReg, Mode: 0o644},
			[]byte("new")},
		{tar.Header{Name: "./usr/share/man/man1/a", Typeflag: tar.TypeReg, Mode: 0o644}, nil},
		{tar.Header{Name: "./etc/os-release", Typeflag: tar.TypeSymlink,
			Linkname: "../usr/lib/os-release", Mode: 0o777}, nil},
		{tar.Header{Name: "./etc/resolv.conf", Typeflag: tar.TypeReg, Mode: 0o644},
			[]byte("the machine's")},
		{tar.Header{Name: "./etc/apt/sources.list", Typeflag: tar.TypeReg, Mode: 0o644},
			[]byte("a mirror")},
		{tar.Header{Name: "./var/cache/apt/archives/lock", Typeflag: tar.TypeReg, Mode: 0o640},
			nil},
		{tar.Header{Name: "./var/log/apt.log", Typeflag: tar.TypeReg, Mode: 0o640}, nil},
		{tar.Header{Name: "./var/lib/dpkg/status", Typeflag: tar.TypeReg, Mode: 0o644}, nil},
		{tar.Header{Name: "./var/lib/dpkg/status.d/libc6", Typeflag: tar.TypeReg, Mode: 0o644},
			[]byte("Package: libc6\n")},
	}
}

// fake makes PATH find an mmdebstrap that writes these entries, and empties the cache.
func fake(t *testing.T, entries []entry, owner int, then time.Time) {
	t.Helper()
	if _, err := os.Stat(image.Keyring); err != nil {
		t.Skip("missing: " + image.Keyring)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		e.Size, e.ModTime, e.Uid, e.Gid = int64(len(e.content)), then, owner, owner
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	fakeScript(t, "exec cat \"${0%/*}/root.tar\"\n", out.Bytes())
}

func fakeScript(t *testing.T, text string, archive []byte) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mmdebstrap"), []byte("#!/bin/sh\n"+text),
		0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "root.tar"), archive, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv(cache.EnvDir, t.TempDir())
}

func shim(t *testing.T, content []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mooring-shim"), content, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestImageWithPackagesIsReproducible(t *testing.T) {
	program, libc := dynamic(t)
	entries := unpacked(libc)
	fake(t, entries, 0, time.Unix(1, 0))
	first := made(t, shim(t, program), withLibvirt())
	slices.Reverse(entries)
	fake(t, entries, 1000, time.Unix(2_000_000_000, 0))
	if diff := made(t, shim(t, program), withLibvirt()); diff["mooring-shim"] !=
		first["mooring-shim"] {
		t.Error("differs with the order, the owner and the time of what is unpacked")
	}
	fake(t, append(entries, entry{tar.Header{Name: "./usr/lib/other", Typeflag: tar.TypeReg}, nil}),
		0, time.Unix(1, 0))
	if other := made(t, shim(t, program), withLibvirt()); other["mooring-shim"] ==
		first["mooring-shim"] {
		t.Error("does not depend on the packages")
	}
}

func TestImageWithPackages(t *testing.T) {
	program, libc := dynamic(t)
	fake(t, unpacked(libc), 0, time.Now())
	o := options{bin: shim(t, program), out: t.TempDir(), tag: "latest", arch: "amd64",
		only: "mooring-shim"}
	if err := runWithoutOutput(t, o); err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(filepath.Join(o.out, "mooring-shim.tar"), nil)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 2 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	for i, want := range [][]string{{
		"etc/ 0755", "etc/os-release 0777", "lib 0777", "run/ 0755", "tmp/ 01777",
		"usr/ 0755", "usr/lib/ 0755", "usr/lib/multiarch/ 0755", "usr/lib/multiarch/libc.so.6 0755",
		"usr/lib/multiarch/libvirt.so.0 0777", "usr/lib/multiarch/libvirt.so.0.1 0644",
		"usr/share/ 0755", "usr/share/doc/ 0755", "usr/share/doc/libc6/ 0755",
		"usr/share/doc/libc6/copyright 0644",
		"var/ 0755", "var/lib/ 0755", "var/lib/dpkg/ 0755", "var/lib/dpkg/status.d/ 0755",
		"var/lib/dpkg/status.d/libc6 0644", "var/run 0777",
	}, {"usr/ 0755", "usr/local/ 0755", "usr/local/bin/ 0755", "usr/local/bin/mooring-shim 0755"}} {
		content, err := layers[i].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, listed(t, content)); diff != "" {
			t.Errorf("layer %d has (-want +got):\n%s", i, diff)
		}
	}
}

// A program that was built on a newer machine, or without libvirt, cannot start.
func TestProgramMustFitThePackages(t *testing.T) {
	dash, libc := dynamic(t)
	plain := bytes.TrimSuffix(bytes.Clone(dash), []byte(libvirtSO))
	foreign := bytes.Clone(libc)
	foreign[18], foreign[19] = byte(elf.EM_S390), 0
	for want, c := range map[string]struct{ program, libc []byte }{
		"mooring-shim does not load libvirt: build it with CGO_ENABLED=1": {
			append(program(t), libvirtSO...), libc},
		// dash has no versions
		"of libc.so.6, which Debian trixie's is too old for: build it on Debian trixie": {
			dash, dash},
		"mooring-shim is for EM_":             {dash, foreign},
		"that of Debian trixie is no library": {dash, []byte("x")},
		"mooring-shim does not load libvirt: build it with CGO_ENABLED=1 and -tags=libvirt_dlopen": {plain, libc},
		"mooring-shim is no program": {
			[]byte("x" + libvirtSO), libc},
		"needs libc.so.6, which is not in Debian trixie's packages libvirt0": {dash, nil},
	} {
		entries := unpacked(c.libc)
		if c.libc == nil {
			entries = entries[1:]
		}
		fake(t, entries, 0, time.Now())
		err := runWithoutOutput(t, options{bin: shim(t, c.program), out: t.TempDir(), tag: "latest",
			arch: "amd64", only: "mooring-shim"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	fake(t, unpacked(libc)[:1], 0, time.Now())
	err := runWithoutOutput(t, options{bin: shim(t, dash), out: t.TempDir(), tag: "latest",
		arch: "amd64", only: "mooring-shim"})
	if err == nil || !strings.Contains(err.Error(), "needs libvirt.so.0") {
		t.Errorf("without libvirt: %v", err)
	}
}

func TestMissingPackages(t *testing.T) {
	o := options{bin: t.TempDir(), out: t.TempDir(), tag: "latest", arch: "amd64",
		only: "mooring-shim"}
	o.arch = "s390x"
	if err := runWithoutOutput(t, o); err == nil ||
		!strings.Contains(err.Error(), `--arch "s390x": want amd64 or arm64`) {
		t.Errorf("got %v", err)
	}
	o.arch = "amd64"
	if _, err := os.Stat(image.Keyring); err == nil {
		fakeScript(t, "echo no mirror >&2; exit 1\n", nil)
		if err := runWithoutOutput(t, o); err == nil || !strings.Contains(err.Error(),
			"unpacking libvirt of Debian trixie: mmdebstrap: exit status 1\nno mirror") {
			t.Errorf("got %v", err)
		}
	}
	t.Setenv(cache.EnvDir, t.TempDir())
	t.Setenv("PATH", t.TempDir())
	err := runWithoutOutput(t, o)
	for _, want := range []string{"make image mooring-shim: ", "missing: mmdebstrap",
		"hack/setup node", "--only=mooring-agent,mooring-controller"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestReadTreeRefusesOtherTypes(t *testing.T) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Name: "./usr/a", Typeflag: tar.TypeLink,
		Linkname: "usr/b"}); err != nil {
		t.Fatal(err)
	}
	if _, err := readTree(&out, isKept); err == nil ||
		!strings.Contains(err.Error(), "./usr/a is of type") {
		t.Errorf("got %v", err)
	}
}
