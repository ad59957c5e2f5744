package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// step is a random fault or an ordinary event of a node.
type step struct {
	name   string
	weight int // in a thousand
	// do executes the step and returns the name of its object for the log. An empty name means that
	// no object is available yet.
	do func(ctx context.Context, w *world) (string, error)
}

// steps returns all steps. Cheap steps have the greatest weights: on an emulated node, renewing a
// launcher takes seconds, and an event within a launcher takes milliseconds.
func steps() []step {
	return []step{
		{"VM starts", 420, startRandomVM},
		{"VM ends", 170, endVM},
		{"heartbeat", 90, sendHeartbeat},
		{"capability probe", 30, runProbe},
		{"bystander starts", 90, startBystander},
		{"bystander ends", 70, endBystander},
		{"launcher killed", 20, killLauncher},
		{"launcher exits", 8, exitLauncher},
		{"stop request", 20, requestStop},
		{"container stopped", 5, stopContainer},
		{"container removed by force", 8, removeContainer},
		{"pod removed by force", 3, removeAnyPod},
		{"shim killed", 2, killShim},
		{"fork storm", 12, startStorm},
		{"agent paused", 20, pauseAgent},
		{"agent paused in a storm", 1, pauseAgentInStorm},
		{"agent killed", 10, killAgent},
		{"fence killed", 2, killUnit("mooring-fence.service")},
		{"containerd restarted", 1, restartContainerd},
		{"containerd killed", 1, killUnit("containerd.service")},
		{"libvirtd killed", 2, killUnit("libvirtd.service")},
	}
}

// errSkip makes the run pick another step, because this step is impossible on this node or now.
var errSkip = errors.New("step is impossible")

// objectTimeout is how long a step waits for an object. Launchers are renewed in the background.
const objectTimeout = 10 * time.Second

// runSteps runs random steps. Skipped steps do not count.
func (w *world) runSteps(ctx context.Context) error {
	all := steps()
	sum := 0
	for _, s := range all {
		sum += s.weight
	}
	for n := 1; n <= w.steps; {
		s := pickStep(all, w.rand.IntN(sum))
		began := time.Now()
		object, err := w.runStep(ctx, s)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errSkip):
			continue
		case err != nil:
			w.logf("%d %s: %v", n, s.name, err)
		default:
			w.logf("%d %s: %s", n, s.name, object)
		}
		w.stepTimes.add(s.name, time.Since(began))
		n++
	}
	return nil
}

// runStep executes a step as soon as an object for it is available.
func (w *world) runStep(ctx context.Context, s step) (string, error) {
	for waited := time.Duration(0); waited < objectTimeout; {
		object, err := s.do(ctx, w)
		if object != "" || err != nil {
			return object, err
		}
		d := pause(ctx, 20*time.Millisecond)
		w.stepTimes.add("(waiting for a launcher)", d)
		waited += d
	}
	return "", errSkip
}

func pickStep(all []step, at int) step {
	for _, s := range all {
		if at -= s.weight; at < 0 {
			return s
		}
	}
	panic("more than the sum of the weights")
}

// pause waits, and returns the time waited.
func pause(ctx context.Context, d time.Duration) time.Duration {
	began := time.Now()
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return time.Since(began)
}

// randomLauncher returns a random launcher that is ready and accepted. It returns nil if no
// launcher is ready, and errSkip if no ready launcher is accepted.
func (w *world) randomLauncher(accept func(*launcher) bool) (*launcher, error) {
	ready := w.readyLaunchers()
	accepted := ready[:0]
	for _, l := range ready {
		if accept(l) {
			accepted = append(accepted, l)
		}
	}
	switch {
	case len(accepted) > 0:
		return accepted[w.rand.IntN(len(accepted))], nil
	case len(ready) > 0:
		return nil, errSkip
	}
	return nil, nil
}

func acceptAny(*launcher) bool { return true }

// startCommands lists the shell commands that start a VM: as a child, by a double fork, ignoring
// SIGTERM, and as a real QEMU. A command listed twice runs twice as often.
func startCommands() []string {
	return []string{
		"vm TAG &", "vm TAG >/dev/null 2>&1 &",
		"(vm TAG >/dev/null 2>&1 &)", "(vm TAG >/dev/null 2>&1 &)",
		"(trap '' TERM; vm TAG >/dev/null 2>&1) &", "qemu TAG >/dev/null 2>&1 &",
	}
}

// maxVMs is the maximum number of VMs per launcher.
const maxVMs = 4

func startRandomVM(ctx context.Context, w *world) (string, error) {
	l, err := w.randomLauncher(func(l *launcher) bool {
		return !l.domain && len(w.runningVMs(l.current)) < maxVMs
	})
	if l == nil {
		return "", err
	}
	all := startCommands()
	s, err := w.startVM(ctx, l, l.current, all[w.rand.IntN(len(all))])
	if err != nil {
		return "", err
	}
	err = w.moveToRandomCgroup(l, s)
	l.current.vms = append(l.current.vms, s)
	w.check.watch(s)
	return s.name, err
}

// moveToRandomCgroup leaves a VM in its launcher's cgroup, moves it below, or out of this cgroup.
func (w *world) moveToRandomCgroup(l *launcher, s *subject) error {
	switch at := w.rand.IntN(10); {
	case at < 6:
		return nil
	case at < 8:
		s.name += ", in a child cgroup"
		return s.moveTo(fmt.Sprintf("%s/vm-%d", l.current.cgroup, s.pid))
	default:
		s.name += ", in another cgroup"
		return s.moveTo(fmt.Sprintf("/sys/fs/cgroup/machine.slice/torture-%d.scope", s.pid))
	}
}

func endVM(_ context.Context, w *world) (string, error) {
	l, err := w.randomLauncher(func(l *launcher) bool { return len(w.runningVMs(l.current)) > 0 })
	if l == nil {
		return "", err
	}
	vms := w.runningVMs(l.current)
	s := vms[w.rand.IntN(len(vms))]
	w.check.expectEnd(s)
	return s.name, s.signal(unix.SIGKILL)
}

func sendHeartbeat(_ context.Context, w *world) (string, error) {
	return w.runInAnyLauncher("touch /run/mooring/pod/heartbeat")
}

// runProbe runs QEMU as libvirt does to read QEMU's capabilities.
func runProbe(_ context.Context, w *world) (string, error) {
	return w.runInAnyLauncher(`(echo '{"execute":"qmp_capabilities"}{"execute":"quit"}' | ` +
		`busybox chroot /node ` + emulator + ` -S -no-user-config -nodefaults -nographic ` +
		`-machine none,accel=tcg -qmp stdio >/dev/null 2>&1 &)`)
}

// startStorm causes more events at once than the agent may be able to read.
func startStorm(_ context.Context, w *world) (string, error) {
	return w.runInAnyLauncher(`(for i in $(seq 1500); do (:); done) &`)
}

// runInAnyLauncher makes a random launcher process run a line of shell.
func (w *world) runInAnyLauncher(line string) (string, error) {
	l, err := w.randomLauncher(acceptAny)
	if l == nil {
		return "", err
	}
	return fmt.Sprintf("launcher %d", l.number), l.current.runShell(line)
}
