package suite

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/integration/cri"
)

// podDir is the pod's directory on the node.
func podDir(p cri.Pod) string { return "/run/mooring/pods/" + p.UID }

func TestCorePodDirectory(t *testing.T) {
	claim(t, "A launcher has its pod directory, can touch two files and make none")
	f := setUp(t)
	p := launcher(map[string]string{api.RequiresLockKey: "true"})
	i := f.run(t, p, cri.Container{MemoryLimit: gib, User: 107})
	f.checkTouch(t, p, i)
	mounts := f.output(t, "grep", " /run/mooring", "/proc/"+itoa(f.pid(t, i))+"/mounts")
	for line := range strings.Lines(mounts) {
		for _, option := range []string{"nosuid", "nodev", "noexec"} {
			program := strings.Contains(line, " /run/mooring/hook ") && option == "noexec"
			if strings.Contains(line, option) == program {
				t.Errorf("mounted with or without %s: %s", option, line)
			}
		}
	}
	if strings.Count(mounts, "\n") != 3 || strings.Count(mounts, " ro,") != 2 {
		t.Errorf("want the directory and the program read-only, and two writable files, have %s",
			mounts)
	}
	if out, err := i.Exec(t.Context(), "/run/mooring/hook", "version"); err != nil ||
		!strings.Contains(out, "mooring-hook") {
		t.Errorf("the hook says %q, %v", out, err)
	}
	if _, err := i.Exec(t.Context(), "touch", "/run/mooring/pod/x"); err == nil {
		t.Error("the pod could make a file")
	}
}

// checkTouch touches one of the two files in the pod, and checks both on the node. An untouched
// file has the time 0.
func (f fixture) checkTouch(t *testing.T, p cri.Pod, i *cri.Instance) {
	t.Helper()
	const format = "%F %a %Y"
	for _, file := range []string{"heartbeat", "stop"} {
		path := podDir(p) + "/pod/" + file
		if got := f.output(t, "stat", "-c", format, path); got != "fifo 666 0" {
			t.Errorf("%s is %q, want an untouched pipe with mode 666", file, got)
		}
	}
	if _, err := i.Exec(t.Context(), "touch", "/run/mooring/pod/heartbeat"); err != nil {
		t.Errorf("the pod cannot touch its file: %v", err)
	}
	if got := f.output(t, "stat", "-c", "%Y", podDir(p)+"/pod/heartbeat"); got == "0" {
		t.Error("on the node, the touched file has time 0")
	}
	if got := f.output(t, "stat", "-c", "%Y", podDir(p)+"/pod/stop"); got != "0" {
		t.Errorf("the untouched file has time %s, want 0", got)
	}
}

// All pods and the agent share the tmpfs. No pod may use an inode of it, not even as root.
func TestPodCannotFillTheTmpfs(t *testing.T) {
	f := setUp(t)
	for name, user := range map[string]int64{"root": 0, "another user": 107} {
		t.Run(name, func(t *testing.T) {
			p := launcher(map[string]string{api.RequiresLockKey: "true"})
			i := f.run(t, p, cri.Container{MemoryLimit: gib, User: user})
			before := f.output(t, "find", podDir(p), "-ls")
			for _, script := range []string{
				"touch /run/mooring/x", "touch /run/mooring/pod/x", "mkdir /run/mooring/pod/x",
				"ln -s / /run/mooring/pod/x",
				"rm -f /run/mooring/pod/stop", "mv /run/mooring/pod/stop /run/mooring/pod/x",
			} {
				if _, err := i.Exec(t.Context(), "sh", "-c", script); err == nil {
					t.Errorf("the pod may %s", script)
				}
			}
			if after := f.output(t, "find", podDir(p), "-ls"); after != before {
				t.Errorf("files\n%s\nwant as before\n%s", after, before)
			}
		})
	}
}

func TestCorePodDirectoryEndsWithThePod(t *testing.T) {
	claim(t, "The pod directory ends with the pod")
	f := setUp(t)
	p := launcher(map[string]string{api.RequiresLockKey: "true"})
	s := f.sandbox(t, p)
	if _, err := s.Run(t.Context(), cri.Container{Name: "compute", MemoryLimit: gib}); err != nil {
		t.Fatal(err)
	}
	f.output(t, "test", "-d", podDir(p))
	if err := s.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod directory to be removed", func() bool {
		left, err := f.Output(t.Context(), "find", "/run/mooring", "-path", "*"+p.UID+"*")
		return err == nil && left == ""
	}, func() string { return f.output(t, "find", "/run/mooring") })
}

// Root of the pod is an unprivileged user of the node, and does not own the pod's files.
func TestCoreUserNamespace(t *testing.T) {
	claim(t, "A launcher in a user namespace has its memory lock and its pod directory")
	f := setUp(t)
	for _, h := range handlers() {
		t.Run(h, func(t *testing.T) {
			if !f.hasUserNamespaces(t, h) {
				outcome(t, "no pod runs in a user namespace, plugin or not")
				f.checkNoUserNamespace(t, h)
				return
			}
			p := inUserNamespace(launcher(map[string]string{api.RequiresLockKey: "true",
				api.ValueKey: "1Gi"}), h)
			i := f.run(t, p, cri.Container{MemoryLimit: gib})
			if got, want := f.memlock(t, i), both(2*gib); got != want {
				t.Errorf("the kernel has %s, want %s", got, want)
			}
			f.checkTouch(t, p, i)
			if _, err := i.Exec(t.Context(), "touch", "/run/mooring/pod/x"); err == nil {
				t.Error("the pod could make a file")
			}
		})
	}
}

func inUserNamespace(p cri.Pod, handler string) cri.Pod {
	p.UserNamespace = 1 << 20
	p.Handler = handler
	return p
}

// checkNoUserNamespace checks that a plain pod fails, too: Mooring does not cause the failure.
func (f fixture) checkNoUserNamespace(t *testing.T, handler string) {
	t.Helper()
	s, err := f.cri.RunPod(t.Context(), inUserNamespace(plain(), handler))
	if err == nil {
		defer s.Remove(t.Context()) //nolint:errcheck // the pod ends with the node
		_, err = s.Run(t.Context(), cri.Container{Name: "compute", MemoryLimit: gib})
	}
	if err == nil {
		t.Errorf("a plain pod runs in a user namespace with %s", handler)
	}
	t.Logf("plain pod: %v", err)
}
