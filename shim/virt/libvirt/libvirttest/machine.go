//go:build cgo && libvirt_dlopen

package libvirttest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"libvirt.org/go/libvirt"
)

// EnvRoot names the environment variable with a root file system whose libvirtd and QEMU replace
// the machine's. `go run ./hack/libvirt-root forky` makes one.
const EnvRoot = "MOORING_LIBVIRT_ROOT"

func missingPrograms(names ...string) []string {
	var missing []string
	root := os.Getenv(EnvRoot)
	for _, name := range names {
		switch {
		case root == "":
			if _, err := exec.LookPath(name); err != nil {
				missing = append(missing, name)
			}
		case !existsInRoot(root, name):
			missing = append(missing, name+" in "+EnvRoot+"="+root)
		}
	}
	if os.Geteuid() != 0 {
		missing = append(missing, "root, for namespaces")
	}
	return missing
}

func existsInRoot(root, name string) bool {
	found, err := fs.Glob(os.DirFS(root), "usr/*bin/"+name)
	return err == nil && len(found) > 0
}

// RequireAttach skips the test with a libvirt before 9.5, which refuses a domain with a maximum
// memory and no slots.
func (d *Daemon) RequireAttach(t testing.TB) {
	t.Helper()
	d.WithConnect(t, func(conn *libvirt.Connect) error {
		version, err := conn.GetLibVersion()
		if err == nil && version < 9_005_000 {
			t.Skipf("libvirt %d refuses a maximum memory without slots: want 9005000 or newer",
				version)
		}
		return err
	})
}

// UnplugsVCPUs reports whether this QEMU can unplug vCPUs without KVM. Versions 10.0 and older
// cannot.
func (d *Daemon) UnplugsVCPUs(t testing.TB) (can bool) {
	t.Helper()
	d.WithConnect(t, func(conn *libvirt.Connect) error {
		qemu, err := conn.GetVersion()
		libvirtd, libvirtErr := conn.GetLibVersion()
		can = qemu >= 11_000_000
		t.Logf("libvirt %d, QEMU %d, unplugs vCPUs: %t", libvirtd, qemu, can)
		return errors.Join(err, libvirtErr)
	})
	return can
}

// HasCPUController reports whether domains get the CPU controller.
func (d *Daemon) HasCPUController() bool {
	_, v1 := os.Stat("/sys/fs/cgroup/cpu/" + d.cgroup)
	_, v2 := os.Stat("/sys/fs/cgroup/" + d.cgroup)
	return v1 == nil || v2 == nil
}

// ThrottledCount returns how often the kernel throttled the domain's first vCPU.
func (d *Daemon) ThrottledCount(t testing.TB) (n int) {
	t.Helper()
	for _, hierarchy := range []string{"", "cpu"} {
		// Errors are ignored: folders of other domains may vanish during the walk.
		_ = filepath.WalkDir(
			filepath.Join("/sys/fs/cgroup", hierarchy, d.cgroup),
			func(path string, _ fs.DirEntry, err error) error {
				if err == nil && strings.HasSuffix(path, "/vcpu0/cpu.stat") {
					n = readStatistic(t, path, "nr_throttled")
				}
				return nil
			},
		)
	}
	return n
}

func readStatistic(t testing.TB, path, name string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), name+" ")
	n, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0]))
	if !found || err != nil {
		t.Fatalf("%s: no %s in %q", path, name, text)
	}
	return n
}

func (d *Daemon) removeCgroups(t testing.TB) {
	t.Helper()
	for _, hierarchy := range []string{"", "cpu", "cpuacct"} {
		removeCgroup(t, filepath.Join("/sys/fs/cgroup", hierarchy, d.cgroup))
	}
}

func removeCgroup(t testing.TB, path string) {
	t.Helper()
	var folders []string
	err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	for _, folder := range slices.Backward(folders) {
		err = errors.Join(err, unix.Rmdir(folder))
	}
	if err != nil {
		t.Errorf("remove cgroup %s: %v", path, err)
	}
}
