package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

// suite is the Debian release of the libvirt in an image.
const suite = "trixie"

// packages is the package to unpack with its dependencies. None contains a shell or a program.
const packages = "libvirt0"

// libvirtSO is the library of the binding.
const libvirtSO = "libvirt.so.0"

// archiveFile is the file of a cache entry with mmdebstrap's output.
const archiveFile = "root.tar"

// note is a hook of mmdebstrap. For scanners, it writes the release and a file for each package, as
// distroless images do. It also writes the common licences of the package base-files. mmdebstrap
// does not unpack all of base-files, because base-files depends on an awk.
const note = `set -eu
cd "$1"
mkdir -p var/lib/dpkg/status.d
for deb in var/cache/apt/archives/*.deb; do
	dpkg-deb --field "$deb" >"var/lib/dpkg/status.d/$(dpkg-deb --field "$deb" Package)"
done
cd tmp
APT_CONFIG=${MMDEBSTRAP_APT_CONFIG:?} apt-get -q download base-files
dpkg-deb --fsys-tarfile base-files_*.deb |
	tar -x -C .. ./etc/debian_version ./etc/os-release ./usr/lib/os-release ./usr/share/common-licenses
`

// libvirtTree is libvirt's client library with its dependencies. If it is not cached, libvirtTree
// unpacks it, which needs no root.
func libvirtTree(ctx context.Context, arch string, log *slog.Logger) (_ tree, err error) {
	args, err := arguments(arch)
	if err != nil {
		return nil, err
	}
	store, err := cache.Default()
	if err != nil {
		return nil, err
	}
	entry, err := store.LogTo(log).Get(ctx, image.RootfsName, cache.KeyOf(args...),
		func(ctx context.Context, dir string) error {
			log.Info("unpacking libvirt's client library, half a minute", "suite", suite)
			return unpack(ctx, args, filepath.Join(dir, archiveFile))
		})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, entry.Close()) }()
	archive, err := os.Open(filepath.Join(entry.Dir, archiveFile))
	if err != nil {
		return nil, err
	}
	defer func() { _ = archive.Close() }()
	if info, err := archive.Stat(); err == nil {
		log.Info("libvirt's client library is cached; for newer packages run `hack/node "+
			"clean` first",
			"suite", suite, "unpacked", info.ModTime().Format(time.DateOnly))
	}
	t, err := readTree(archive, isKept)
	if err != nil {
		return nil, fmt.Errorf("packages of Debian %s: %w", suite, err)
	}
	t.link()
	return t, nil
}

// arguments are the arguments of mmdebstrap. They name no mirror: mmdebstrap knows one for each
// Debian release. An apt proxy of this machine applies.
func arguments(arch string) ([]string, error) {
	if arch != "amd64" && arch != "arm64" { // Debian has other names for other architectures
		return nil, fmt.Errorf("--arch %q: want amd64 or arm64", arch)
	}
	return []string{
		"--variant=extract", "--format=tar", "--skip=output/dev", "--quiet",
		"--architectures=" + arch, "--keyring=" + image.Keyring, "--include=" + packages,
		`--aptopt=Apt::Install-Recommends "false"`,
		`--aptopt=APT::Sandbox::User "root"`,
		`--aptopt=Acquire::Retries "3"`,
		"--extract-hook=" + note,
		suite, "-",
	}, nil
}

// missingTools are the tools for unpacking, as far as this machine lacks them.
func missingTools() []string {
	var missing []string
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		missing = append(missing, "mmdebstrap")
	}
	if _, err := os.Stat(image.Keyring); err != nil {
		missing = append(missing, image.Keyring)
	}
	return missing
}

func unpack(ctx context.Context, args []string, path string) (err error) {
	if missing := missingTools(); len(missing) > 0 {
		return fmt.Errorf("missing: %s; on Debian and Ubuntu `hack/setup node` installs them; "+
			"--only=mooring-agent,mooring-controller leaves this image out",
			strings.Join(missing, ", "))
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	mode := "--mode=root"
	if os.Geteuid() != 0 {
		mode = "--mode=chrootless" // no program of the packages runs
	}
	var stderr strings.Builder
	cmd := child.Isolated(ctx, "mmdebstrap", append([]string{mode}, args...)...)
	cmd.Stdout, cmd.Stderr = out, &stderr
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	if err := child.Run(cmd); err != nil {
		return fmt.Errorf("unpacking libvirt of Debian %s: mmdebstrap: %w\n%s", suite, err,
			strings.TrimSpace(stderr.String()))
	}
	return nil
}

// isKept is false for the files of apt, dpkg and mmdebstrap, some of which come from this machine,
// and for documentation.
func isKept(name string) bool {
	if rest, ok := strings.CutPrefix(name, "usr/share/"); ok {
		switch dir, _, _ := strings.Cut(rest, "/"); dir {
		case "doc":
			// links to directories of other packages
			return filepath.Base(name) == "copyright" || strings.Count(rest, "/") == 1
		case "man", "locale", "info", "lintian":
			return false
		}
		return true
	}
	switch name {
	case "etc/fstab", "etc/hostname", "etc/resolv.conf":
		return false
	}
	for _, dir := range []string{"etc/apt/", "etc/dpkg/"} {
		if strings.HasPrefix(name, dir) {
			return false
		}
	}
	return strings.HasPrefix(name, "etc/") || strings.HasPrefix(name, "usr/") ||
		strings.HasPrefix(name, "var/lib/dpkg/status.d/")
}

// link adds Debian's links outside of packages. Programs search the loader in /lib64 or /lib, and
// sockets in /run or /var/run.
func (t tree) link() {
	for _, dir := range []string{"lib", "lib64"} {
		if _, there := t["usr/"+dir]; there {
			t.put(dir, file{kind: tar.TypeSymlink, mode: 0o777, link: "usr/" + dir})
		}
	}
	t.put("run", file{kind: tar.TypeDir, mode: 0o755})
	t.put("var/run", file{kind: tar.TypeSymlink, mode: 0o777, link: "/run"})
	t.put("tmp", file{kind: tar.TypeDir, mode: 0o1777})
}
