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

// placement is the relation of a launcher and its VM process: namespaces and cgroups.
type placement struct {
	name    string
	pids    cri.PIDs
	libvirt bool // the VM is a domain of the node's libvirt, outside the launcher
}

// placements returns all placements.
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
	pod             cri.Pod
	launcher        *cri.Instance
	sidecar         *cri.Instance // nil without a sidecar
	launcherProcess process       // the first process of the launcher
	vmProcess       process       // QEMU; zero before its start
	console         string        // console file of a Linux guest on the node
	shared          string        // shared directory of launcher and sidecar on the node
}

// domain returns the name of the VM's libvirt domain.
func (v *vm) domain() string { return "vm-" + v.pod.UID[:8] }

// launcherScript is the first process of a launcher: a shell that executes the lines of
// f.sendLine. Its QEMU is a real QEMU process with firmware only, which costs little.
const launcherScript = `qemu() {
	exec busybox chroot /node qemu-system-x86_64 -machine q35,accel=tcg -m 64 -nodefaults -no-user-config -display none -S "$@"
}
busybox mkfifo /tmp/do && exec 3<>/tmp/do
while :; do read -r line <&3 && eval "$line"; done`

// Launcher scripts by their reaction to SIGTERM.
const (
	// dutiful ends its VM first.
	dutiful = `trap '[ -z "$vm" ] || { kill "$vm"; wait "$vm"; }; exit 0' TERM` + "\n" +
		launcherScript
	// careless ends without its VM.
	careless = `trap 'exit 0' TERM` + "\n" + launcherScript
	// stubborn ignores SIGTERM.
	stubborn = `trap : TERM` + "\n" + launcherScript
)

// Lines that start the VM of a launcher.
const (
	asChild = `qemu & vm=$!`
	// forks twice, into a session of its own
	asDaemon = `rm -f /tmp/daemon; (qemu -daemonize); : >/tmp/daemon`
)

// launcherContainer returns the container of a launcher script.
func launcherContainer(script string) cri.Container {
	return cri.Container{
		Name: "compute", Args: []string{"sh", "-c",
			script}, MemoryLimit: gib, Mounts: map[string]string{"/node": "/"},
	}
}

// vmOptions are the options of a launcher and its VM.
type vmOptions struct {
	pod         func(annotations map[string]string) cri.Pod // nil: launcher
	annotations map[string]string
	script      string         // empty: dutiful
	start       string         // empty: asChild
	container   *cri.Container // nil: launcherContainer(script)
	sidecar     *cri.Container // starts before the launcher
}

// runLauncher runs a pod with a launcher, without a VM.
func (f fixture) runLauncher(ctx context.Context, at placement, w vmOptions) (*vm, error) {
	if w.pod == nil {
		w.pod = launcher
	}
	if w.script == "" {
		w.script = dutiful
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
	c := launcherContainer(w.script)
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
	v.launcherProcess, err = f.processOf(ctx, pid)
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
	if err := f.sendLine(ctx, v, how); err != nil {
		return err
	}
	if how == asDaemon { // an earlier QEMU process is only the daemon's parent
		if err := f.awaitFile(ctx, v, "/tmp/daemon"); err != nil {
			return err
		}
	}
	return f.findVMProcess(ctx, v)
}

// findVMProcess finds the process of a VM that its launcher has started.
func (f fixture) findVMProcess(ctx context.Context, v *vm) error {
	cgroup, err := f.cgroupOf(ctx, v.launcherProcess)
	if err != nil {
		return err
	}
	v.vmProcess, err = f.awaitEmulator(ctx, cgroup)
	return err
}

// awaitFile waits until a file exists in a launcher.
func (f fixture) awaitFile(ctx context.Context, v *vm, file string) error {
	const exists = `until [ -e "$1" ]; do sleep 0.1; done`
	_, err := f.Output(ctx, "timeout", "60", "sh", "-c", exists, "sh",
		fmt.Sprintf("/proc/%d/root%s", v.launcherProcess.pid, file))
	if err != nil {
		return fmt.Errorf("waiting for %s in the launcher: %w", file, err)
	}
	return nil
}

// sendLine makes a launcher script execute a line of shell. It does not use the runtime.
func (f fixture) sendLine(ctx context.Context, v *vm, line string) error {
	const write = `until [ -p "$1" ]; do sleep 0.1; done; echo "$2" >"$1"`
	_, err := f.Output(ctx, "sh", "-c", write, "sh",
		fmt.Sprintf("/proc/%d/root/tmp/do", v.launcherProcess.pid), line)
	return err
}

// awaitEmulator returns the only QEMU process in and below a cgroup. It waits until two scans in
// a row find the same process: a starting QEMU may still fork.
func (f fixture) awaitEmulator(ctx context.Context, cgroup string) (process, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
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
			return last, fmt.Errorf("waiting for QEMU in %s: have %v, %w", cgroup, found,
				errors.Join(err, ctx.Err()))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// runAllPlacements runs a VM of each placement until the test ends.
func (f fixture) runAllPlacements(t *testing.T, w vmOptions) []*vm {
	t.Helper()
	return f.runVMs(t, placements(), w)
}

// runVM runs one VM until the test ends.
func (f fixture) runVM(t *testing.T, at placement, w vmOptions) *vm {
	t.Helper()
	return f.runVMs(t, []placement{at}, w)[0]
}

func (f fixture) runVMs(t *testing.T, at []placement, w vmOptions) []*vm {
	t.Helper()
	vms := f.runLaunchers(t, at, w)
	each(t, vms, func(ctx context.Context, v *vm) error { return f.start(ctx, v, w.start) })
	return vms
}

// runLaunchers is runVMs without the VMs.
func (f fixture) runLaunchers(t *testing.T, at []placement, w vmOptions) []*vm {
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
		t.Cleanup(func() { f.removeVM(t, v) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return vms
}

// each calls do for all VMs concurrently.
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

// removeVM removes VM process and pod of a VM.
func (f fixture) removeVM(t *testing.T, v *vm) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	if v.vmProcess.pid != 0 {
		_, err := f.Output(ctx, "sh", "-c", killProcess, "sh", itoa(v.vmProcess.pid),
			fmt.Sprint(v.vmProcess.start))
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

// killProcess kills the process $1 if it still has the start time $2.
const killProcess = `[ "$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20)" != "$2" ` +
	`] || kill -9 "$1"`
