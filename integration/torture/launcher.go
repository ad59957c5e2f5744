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
	// emulator is QEMU's name in the policy.
	emulator = "qemu-system-x86_64"
	// workDir holds a lightweight emulator, mounted at /torture in launchers.
	workDir = "/opt/torture"
	// toldTimeout bounds a command to an owner, on an emulated node.
	toldTimeout = 20 * time.Second
)

// kind describes a launcher.
type kind struct {
	name    string
	pids    cri.PIDs
	handler string
	owner   string // reaction to SIGTERM, as a shell's trap
	domain  bool   // its VM is a domain of the node's libvirt
}

// kinds are assigned to launchers in turn. crun starts twice as fast as runc.
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

// ownerScript runs commands from a pipe. vm becomes the lightweight emulator, qemu the node's own.
const ownerScript = `trap '%s' TERM
vm() { export TAG=$1; exec -a sleep /torture/` + emulator + ` 2147483647; }
qemu() { export TAG=$1; exec busybox chroot /node ` + emulator + ` -machine q35,accel=tcg -m 16 -nodefaults -no-user-config -display none -S; }
exec 3<>/ctl/do
while :; do read -r line <&3 && eval "$line"; done`

// launcher is a slot for launchers, one after the other.
type launcher struct {
	kind
	number  int
	sandbox *cri.Sandbox
	current *instance
	busy    atomic.Bool // being ended or renewed
}

// instance is a running launcher.
type instance struct {
	container *cri.Instance
	owner     *subject
	cgroup    string
	ctl       *os.File // command pipe
	vms       []*subject
	domain    nodeDomain
}

func (l *launcher) dir() string { return filepath.Join(workDir, "ctl", strconv.Itoa(l.number)) }

// container returns the launcher's container.
func (l *launcher) container() cri.Container {
	return cri.Container{
		Name: "compute", MemoryLimit: 256 << 20,
		Args:   []string{"sh", "-c", fmt.Sprintf(ownerScript, l.owner)},
		Mounts: map[string]string{"/node": "/", "/torture": workDir, "/ctl": l.dir()},
	}
}

func (l *launcher) pod() cri.Pod {
	uid := uuid.NewString()
	p := cri.Pod{
		Namespace: namespace, Name: fmt.Sprintf("launcher-%d-%s", l.number, uid[:8]), UID: uid, Handler: l.handler, PIDs: l.pids,
		Labels:      map[string]string{"kubevirt.io": "virt-launcher"},
		Annotations: map[string]string{api.GracePeriodKey: "1s", "required-plugins.noderesource.dev": `["mooring"]`},
	}
	if l.domain {
		p.Annotations[api.DomainKey] = domainOf(p)
	}
	return p
}

// open runs the launcher, in a new pod if necessary. It waits until the agent knows the launcher,
// because processes started earlier have no owner.
func (w *world) open(ctx context.Context, l *launcher) error {
	if l.sandbox == nil {
		s, err := w.cri.RunPod(ctx, l.pod())
		if err != nil {
			return err
		}
		l.sandbox = s
	}
	i, err := l.run(ctx, fmt.Sprintf("owner of launcher %d (%s)", l.number, l.name))
	if err != nil {
		return err
	}
	if err := w.awaitKnown(ctx, l.sandbox.Pod, i.owner.pid); err != nil {
		return errors.Join(err, i.ctl.Close())
	}
	w.seat(l, i)
	return nil
}

// seat makes an instance the launcher's current one and watches its owner.
func (w *world) seat(l *launcher, i *instance) {
	w.check.watch(i.owner)
	w.mu.Lock()
	defer w.mu.Unlock()
	l.current = i
}

// run runs a container in the launcher's pod and finds its first process. name appears in findings.
func (l *launcher) run(ctx context.Context, name string) (*instance, error) {
	ctl, err := l.pipe()
	if err != nil {
		return nil, err
	}
	i := &instance{ctl: ctl}
	if i.container, err = l.sandbox.Run(ctx, l.container()); err == nil {
		err = i.adopt(ctx, name)
	}
	if err != nil {
		return nil, errors.Join(err, ctl.Close())
	}
	return i, nil
}

// adopt finds the first process of the container.
func (i *instance) adopt(ctx context.Context, name string) error {
	pid, err := i.container.Pid(ctx)
	if err != nil {
		return err
	}
	if i.cgroup, err = cgroupOf(pid); err != nil {
		return err
	}
	p, err := hold(pid)
	i.owner = &subject{process: p, name: name}
	return err
}

// pipe creates a new pipe, so that the next owner does not get commands for the old one.
func (l *launcher) pipe() (*os.File, error) {
	path := filepath.Join(l.dir(), "do")
	if err := errors.Join(os.MkdirAll(l.dir(), 0o755), os.RemoveAll(path)); err != nil {
		return nil, err
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("making a pipe for launcher %d: %w", l.number, err)
	}
	return os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
}

// tell makes the owner run a line of shell.
func (i *instance) tell(line string) error {
	_, err := fmt.Fprintln(i.ctl, line)
	return err
}

// startVM makes an owner start a VM, and finds its process.
func (w *world) startVM(ctx context.Context, l *launcher, i *instance, how string) (*subject, error) {
	tag := fmt.Sprintf("vm-%d", w.count.Add(1))
	if err := i.tell(strings.ReplaceAll(how, "TAG", tag)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, toldTimeout)
	defer cancel()
	for {
		for _, pid := range pidsBelow(i.cgroup) {
			if !runsEmulator(pid, tag) {
				continue
			}
			p, err := hold(pid)
			if err != nil {
				return nil, err
			}
			return &subject{process: p, owner: i.owner, name: fmt.Sprintf("%s of launcher %d (%s), %q", tag, l.number, l.name, how)}, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("launcher %d did not start %s: %w", l.number, tag, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// isLive reports whether an instance accepts commands.
func (w *world) isLive(i *instance) bool {
	return i != nil && w.check.isLeftAlone(i.owner)
}
