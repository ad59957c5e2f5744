package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/integration/cri"
)

const (
	namespace = "torture"
	// emulator is the name of QEMU's file, as in the policy.
	emulator = "qemu-system-x86_64"
	// workDir holds the lightweight emulator. Launchers mount it at /torture.
	workDir = "/opt/torture"
	// commandTimeout bounds a command in a launcher process on an emulated node.
	commandTimeout = 20 * time.Second
)

// kind describes a launcher.
type kind struct {
	name    string
	pids    cri.PIDs
	handler string
	onTERM  string // shell command for SIGTERM
	domain  bool   // its VM is a domain of the node's libvirt
}

// kinds lists the kinds of launchers. The run assigns them in turn. Most use crun, because crun
// starts a container in half the time of runc.
func kinds() []kind {
	return []kind{
		{"hostPID", cri.NodePIDs, "crun", "exit 0", false},
		{"shared", cri.PodPIDs, "crun", "exit 0", false},
		{"own", cri.OwnPIDs, "crun", "exit 0", false},
		{"hostPID stubborn", cri.NodePIDs, "crun", ":", false},
		{"hostPID runc", cri.NodePIDs, "runc", "exit 0", false},
		{"own stubborn", cri.OwnPIDs, "crun", ":", false},
	}
}

// launcherScript runs commands from a pipe. vm becomes the lightweight emulator, qemu the node's
// QEMU.
const launcherScript = `trap '%s' TERM
vm() { export TAG=$1; exec -a sleep /torture/` + emulator + ` 2147483647; }
qemu() { export TAG=$1; exec busybox chroot /node ` + emulator +
	` -machine q35,accel=tcg -m 16 -nodefaults -no-user-config -display none -S; }
exec 3<>/ctl/do
while :; do read -r line <&3 && eval "$line"; done`

// launcher is one of the launchers of the run. When an instance of it has ended, a new instance
// replaces it.
type launcher struct {
	kind
	number  int
	pod     *cri.Sandbox
	current *instance
	busy    atomic.Bool // being ended or renewed
}

// instance is one run of a launcher.
type instance struct {
	container *cri.Instance
	process   *subject // the launcher process
	cgroup    string
	ctl       *os.File // command pipe
	vms       []*subject
	domain    libvirtDomain
	vmsEnd    bool // a stop request ends its VMs, also one that libvirt still starts
}

func (l *launcher) dir() string { return filepath.Join(workDir, "ctl", strconv.Itoa(l.number)) }

// containerSpec describes the launcher's container.
func (l *launcher) containerSpec() cri.Container {
	return cri.Container{
		Name: "compute", MemoryLimit: 256 << 20,
		Args:   []string{"sh", "-c", fmt.Sprintf(launcherScript, l.onTERM)},
		Mounts: map[string]string{"/node": "/", "/torture": workDir, "/ctl": l.dir()},
	}
}

func (l *launcher) podSpec() cri.Pod {
	uid := uuid.NewString()
	p := cri.Pod{
		Namespace: namespace, Name: fmt.Sprintf("launcher-%d-%s", l.number, uid[:8]), UID: uid,
		Handler: l.handler, PIDs: l.pids,
		Labels: map[string]string{"kubevirt.io": "virt-launcher"},
		Annotations: map[string]string{
			api.GracePeriodKey:                  "1s",
			"required-plugins.noderesource.dev": `["mooring"]`,
		},
	}
	if l.domain {
		p.Annotations[api.DomainKey] = l.newDomainName(uid)
	}
	return p
}

// startInstance starts the launcher's container, in a new pod if it has none. It waits until the
// agent has registered the launcher: the agent does not tie processes started earlier.
func (w *world) startInstance(ctx context.Context, l *launcher) error {
	if l.pod == nil {
		s, err := w.cri.RunPod(ctx, l.podSpec())
		if err != nil {
			return err
		}
		l.pod = s
	}
	i, err := l.runContainer(ctx, fmt.Sprintf("launcher %d (%s)", l.number, l.name))
	if err != nil {
		return err
	}
	if err := w.awaitRegistered(ctx, l.pod.Pod, i.process.pid); err != nil {
		return errors.Join(err, i.ctl.Close())
	}
	w.setCurrent(l, i)
	return nil
}

// setCurrent makes an instance the launcher's current one and watches its launcher process.
func (w *world) setCurrent(l *launcher, i *instance) {
	w.check.watch(i.process)
	w.mu.Lock()
	defer w.mu.Unlock()
	l.current = i
}

// runContainer runs a container in the launcher's pod and finds its first process. name appears in
// findings.
func (l *launcher) runContainer(ctx context.Context, name string) (*instance, error) {
	ctl, err := l.makePipe()
	if err != nil {
		return nil, err
	}
	i := &instance{ctl: ctl}
	if i.container, err = l.pod.Run(ctx, l.containerSpec()); err == nil {
		err = i.findProcess(ctx, name)
	}
	if err != nil {
		return nil, errors.Join(err, ctl.Close())
	}
	return i, nil
}

// findProcess sets the first process of the container and its cgroup.
func (i *instance) findProcess(ctx context.Context, name string) error {
	pid, err := i.container.Pid(ctx)
	if err != nil {
		return err
	}
	if i.cgroup, err = cgroupOf(pid); err != nil {
		return err
	}
	p, err := openProcess(pid)
	i.process = &subject{process: p, name: name}
	return err
}

// makePipe creates a new pipe, so that the next instance does not get commands for the old one.
func (l *launcher) makePipe() (*os.File, error) {
	path := filepath.Join(l.dir(), "do")
	if err := errors.Join(os.MkdirAll(l.dir(), 0o755), os.RemoveAll(path)); err != nil {
		return nil, err
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("making a pipe for launcher %d: %w", l.number, err)
	}
	return os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
}

// runShell makes the launcher process run a line of shell. It does not wait for the line's end.
func (i *instance) runShell(line string) error {
	_, err := fmt.Fprintln(i.ctl, line)
	return err
}

// startVM makes a launcher process start a VM with a command, and finds the VM's process.
func (w *world) startVM(
	ctx context.Context, l *launcher, i *instance, command string,
) (*subject, error) {
	tag := fmt.Sprintf("vm-%d", w.count.Add(1))
	if err := i.runShell(strings.ReplaceAll(command, "TAG", tag)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	for {
		for _, pid := range pidsBelow(i.cgroup) {
			if !runsEmulator(pid, tag) {
				continue
			}
			p, err := openProcess(pid)
			if err != nil {
				return nil, err
			}
			name := fmt.Sprintf("%s of launcher %d (%s), %q", tag, l.number, l.name, command)
			return &subject{process: p, launcher: i.process, name: name}, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("launcher %d did not start %s: %w", l.number, tag, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// isReady reports whether an instance accepts commands.
func (w *world) isReady(i *instance) bool {
	return i != nil && w.check.mustLive(i.process)
}
