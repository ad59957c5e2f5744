package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/integration/cri"
	"github.com/mooring-vm/mooring/integration/node"
)

// placement is how a launcher and its VM process lie to each other.
type placement struct {
	name    string
	pids    cri.PIDs
	libvirt bool // the VM is a domain of the node's libvirt, outside the launcher
}

// placements are all there are.
func placements() []placement {
	return []placement{
		{name: "own pid namespace", pids: cri.OwnPIDs},
		{name: "shareProcessNamespace", pids: cri.PodPIDs},
		{name: "hostPID", pids: cri.NodePIDs},
		{name: "node-level libvirt", pids: cri.OwnPIDs, libvirt: true},
	}
}

// vm is a launcher and its VM process.
type vm struct {
	placement
	pod      cri.Pod
	launcher *cri.Instance
	sidecar  *cri.Instance // nil where there is none
	owner    process       // the launcher's first
	process  process       // runs QEMU; 0 before it was started
	console  string        // the file on the node that a Linux guest writes to
	shared   string        // the directory on the node that launcher and sidecar share
}

// domain is the libvirt domain's name of a VM that is one.
func (v *vm) domain() string { return "vm-" + v.pod.UID[:8] }

// An owner is the first process of a launcher: a shell that does what it is told
// by f.tell. Its QEMU has a guest of firmware alone, which is a real QEMU process
// and costs next to nothing.
const owner = `qemu() {
	exec busybox chroot /node qemu-system-x86_64 -machine q35,accel=tcg -m 64 -nodefaults -no-user-config -display none -S "$@"
}
busybox mkfifo /tmp/do && exec 3<>/tmp/do
while :; do read -r line <&3 && eval "$line"; done`

// What a launcher does when it is asked to end.
const (
	// dutiful ends its VM first.
	dutiful = `trap '[ -z "$vm" ] || { kill "$vm"; wait "$vm"; }; exit 0' TERM` + "\n" + owner
	// careless leaves its VM behind.
	careless = `trap 'exit 0' TERM` + "\n" + owner
	// stubborn does not end.
	stubborn = `trap : TERM` + "\n" + owner
)

// How an owner starts its VM.
const (
	asChild  = `qemu & vm=$!`
	asDaemon = `rm -f /tmp/daemon; (qemu -daemonize); : >/tmp/daemon` // forks twice, with a session of its own
)

// launcherOf is the container that an owner runs in.
func launcherOf(script string) cri.Container {
	return cri.Container{
		Name: "compute", Args: []string{"sh", "-c", script}, MemoryLimit: gib, Mounts: map[string]string{"/node": "/"},
	}
}

// want is what a test wants a VM to be like.
type want struct {
	pod         func(annotations map[string]string) cri.Pod // launcher where nil
	annotations map[string]string
	owner       string         // dutiful where empty
	start       string         // asChild where empty
	container   *cri.Container // launcherOf(owner) where nil
	sidecar     *cri.Container // runs before it
}

// runLauncher runs a pod with a launcher, and no VM yet.
func (f fixture) runLauncher(ctx context.Context, at placement, w want) (*vm, error) {
	if w.pod == nil {
		w.pod = launcher
	}
	if w.owner == "" {
		w.owner = dutiful
	}
	annotations := map[string]string{api.GracePeriodKey: "3s"}
	v := &vm{placement: at, pod: w.pod(with(annotations, w.annotations))}
	v.pod.PIDs = at.pids
	if at.libvirt {
		v.pod.Annotations[api.DomainKey] = v.domain()
	}
	s, err := f.cri.RunPod(ctx, v.pod)
	if err != nil {
		return v, err
	}
	v.launcher = &cri.Instance{Sandbox: s}
	if w.sidecar != nil {
		if v.sidecar, err = s.Run(ctx, *w.sidecar); err != nil {
			return v, err
		}
	}
	c := launcherOf(w.owner)
	if w.container != nil {
		c = *w.container
	}
	if v.launcher, err = s.Run(ctx, c); err != nil {
		return v, err
	}
	pid, err := v.launcher.Pid(ctx)
	if err != nil {
		return v, err
	}
	v.owner, err = f.processOf(ctx, pid)
	return v, err
}

// start starts the VM of a launcher.
func (f fixture) start(ctx context.Context, v *vm, how string) error {
	if v.libvirt {
		return f.startDomain(ctx, v)
	}
	if how == "" {
		how = asChild
	}
	if err := f.tell(ctx, v, how); err != nil {
		return err
	}
	if how == asDaemon { // before that, there is who becomes the daemon's parent
		if err := f.awaitFile(ctx, v, "/tmp/daemon"); err != nil {
			return err
		}
	}
	return f.learn(ctx, v)
}

// learn finds the process of a VM that its owner has started.
func (f fixture) learn(ctx context.Context, v *vm) error {
	cgroup, err := f.cgroupOf(ctx, v.owner)
	if err != nil {
		return err
	}
	v.process, err = f.awaitEmulator(ctx, cgroup)
	return err
}

// awaitFile waits until a launcher has a file.
func (f fixture) awaitFile(ctx context.Context, v *vm, file string) error {
	const there = `until [ -e "$1" ]; do sleep 0.1; done`
	_, err := f.Output(ctx, "timeout", "60", "sh", "-c", there, "sh", fmt.Sprintf("/proc/%d/root%s", v.owner.pid, file))
	if err != nil {
		return fmt.Errorf("waiting for %s in the launcher: %w", file, err)
	}
	return nil
}

// tell has an owner run a line of shell, whatever the runtime is doing.
func (f fixture) tell(ctx context.Context, v *vm, line string) error {
	const say = `until [ -p "$1" ]; do sleep 0.1; done; echo "$2" >"$1"`
	_, err := f.Output(ctx, "sh", "-c", say, "sh", fmt.Sprintf("/proc/%d/root/tmp/do", v.owner.pid), line)
	return err
}

// awaitEmulator returns the only process that runs QEMU below a cgroup, once it
// has a session's worth of forks behind it: the same at two looks.
func (f fixture) awaitEmulator(ctx context.Context, cgroup string) (process, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for last := (process{}); ; {
		found, err := f.emulators(ctx, cgroup)
		switch {
		case len(found) == 1 && found[0] == last:
			return last, nil
		case len(found) == 1:
			last = found[0]
		}
		select {
		case <-ctx.Done():
			return last, fmt.Errorf("waiting for QEMU in %s: have %v, %w", cgroup, found, errors.Join(err, ctx.Err()))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// fleet runs a VM of each placement until the test ends.
func (f fixture) fleet(t *testing.T, w want) []*vm {
	t.Helper()
	return f.runVMs(t, placements(), w)
}

// runVM runs one VM until the test ends.
func (f fixture) runVM(t *testing.T, at placement, w want) *vm {
	t.Helper()
	return f.runVMs(t, []placement{at}, w)[0]
}

func (f fixture) runVMs(t *testing.T, at []placement, w want) []*vm {
	t.Helper()
	vms := f.runLaunchers(t, at, w)
	each(t, vms, func(ctx context.Context, v *vm) error { return f.start(ctx, v, w.start) })
	return vms
}

// runLaunchers is runVMs without the VMs.
func (f fixture) runLaunchers(t *testing.T, at []placement, w want) []*vm {
	t.Helper()
	vms := make([]*vm, len(at))
	var g errgroup.Group
	for n, p := range at {
		g.Go(func() (err error) {
			vms[n], err = f.runLauncher(t.Context(), p, w)
			return err
		})
	}
	err := g.Wait()
	for _, v := range vms {
		t.Cleanup(func() { f.clear(t, v) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return vms
}

// each does something with all VMs at once.
func each(t *testing.T, vms []*vm, do func(context.Context, *vm) error) {
	t.Helper()
	g, ctx := errgroup.WithContext(t.Context())
	for _, v := range vms {
		g.Go(func() error {
			if err := do(ctx, v); err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// clear removes what is left of a VM.
func (f fixture) clear(t *testing.T, v *vm) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if v.process.pid != 0 {
		_, err := f.Output(ctx, "sh", "-c", killThat, "sh", itoa(v.process.pid), fmt.Sprint(v.process.start))
		if err != nil && !errors.Is(err, node.ErrLost) {
			t.Errorf("cleaning up: %v", err)
		}
	}
	if v.launcher == nil {
		return
	}
	err := v.launcher.Sandbox.Remove(ctx)
	if err != nil && !errors.Is(err, node.ErrLost) && !strings.Contains(err.Error(), "not found") {
		t.Errorf("cleaning up: %v", err)
	}
}

// killThat kills the process that still has the start time.
const killThat = `[ "$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20)" != "$2" ] || kill -9 "$1"`
