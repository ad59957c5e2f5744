package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// step is a random fault or an ordinary event of a node.
type step struct {
	name   string
	weight int // relative to the other faults, or to the other events
	// do executes the step and returns the name of its object for the log. An empty name means that
	// no object is available yet.
	do func(ctx context.Context, w *world) (string, error)
}

// faultPercent is the least part of faults among the steps of a run.
const faultPercent = 40

// events returns the ordinary events.
func events() []step {
	return []step{
		{"VM starts", 420, startRandomVM},
		{"VM ends", 170, endVM},
		{"heartbeat", 90, sendHeartbeat},
		{"capability probe", 30, runProbe},
		{"bystander starts", 90, startBystander},
		{"bystander ends", 70, endBystander},
	}
}

// faults returns the faults. Cheap ones have the greatest weights: on an emulated node, renewing a
// launcher takes seconds, and a fault within a launcher takes milliseconds.
func faults() []step {
	return []step{
		{"launcher killed", 40, killLauncher},
		{"launcher exits", 16, exitLauncher},
		{"stop request", 40, requestStop},
		{"container stopped", 10, stopContainer},
		{"container removed by force", 16, removeContainer},
		{"pod removed by force", 6, removeAnyPod},
		{"shim killed", 4, killShim},
		{"fork storm", 24, startStorm},
		{"launcher frozen", 60, freezeLauncher},
		{"agent, launcher and VMs stopped", 30, stopEverything},
		{"lease", 60, setLease},
		{"emulator renamed", 60, renameEmulator},
		{"agent paused", 40, pauseAgent},
		{"mode observe", 4, observeMode},
		{"agent with another map schema", 4, changeSchema},
		{"clock step", 30, stepClock},
		{"sidecar", 30, runSidecar},
		{"domain without a pod", 20, startUnownedDomain},
		{"agent paused in a storm", 2, pauseAgentInStorm},
		{"agent killed", 20, killAgent},
		{"fence killed", 4, killUnit("mooring-fence.service")},
		{"containerd restarted", 2, restartContainerd},
		{"containerd killed", 2, killUnit("containerd.service")},
		{"libvirtd killed", 4, killUnit("libvirtd.service")},
	}
}

// chooser chooses steps at random, and counts the executed ones. Skipped steps do not count, so it
// chooses a fault whenever their part would fall below faultPercent.
type chooser struct {
	events, faults []step
	pending        []step // faults not executed so far, in the order of the next tries
	rand           *rand.Rand
	done           int // steps
	faulty         int // faults among them
}

func newChooser(r *rand.Rand) *chooser {
	c := &chooser{events: events(), faults: faults(), pending: faults(), rand: r}
	r.Shuffle(len(c.pending), func(i, j int) {
		c.pending[i], c.pending[j] = c.pending[j], c.pending[i]
	})
	return c
}

// next returns a step, and whether it is a fault. Every second fault on average is a pending one,
// so that a short run has the rare ones, too.
func (c *chooser) next() (s step, fault bool) {
	switch {
	case 100*c.faulty >= faultPercent*(c.done+1):
		return pickStep(c.events, c.rand), false
	case len(c.pending) == 0 || c.rand.IntN(2) == 0:
		return pickStep(c.faults, c.rand), true
	}
	s = c.pending[0]
	c.pending = append(c.pending[1:], s)
	return s, true
}

// count records the execution of a step.
func (c *chooser) count(s step, fault bool) {
	c.done++
	if !fault {
		return
	}
	c.faulty++
	c.pending = slices.DeleteFunc(c.pending, func(p step) bool { return p.name == s.name })
}

// checkFaults fails if a run as long as the one in CI never executed some fault.
func (c *chooser) checkFaults() error {
	if c.done < 200 || len(c.pending) == 0 {
		return nil
	}
	var names []string
	for _, s := range c.pending {
		names = append(names, s.name)
	}
	return fmt.Errorf("faults never executed in %d steps: %s", c.done, strings.Join(names, "; "))
}

// errSkip makes the run pick another step, because this step is impossible on this node or now.
var errSkip = errors.New("step is impossible")

// objectTimeout is how long a step waits for an object. Launchers are renewed in the background.
const objectTimeout = 10 * time.Second

// runSteps runs random steps. Skipped steps do not count.
func (w *world) runSteps(ctx context.Context) error {
	c := newChooser(w.rand)
	for c.done < w.steps {
		s, fault := c.next()
		began := time.Now()
		object, err := w.runStep(ctx, s)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errSkip):
			continue
		case err != nil:
			w.logf("%d %s: %v", c.done+1, s.name, err)
		default:
			w.logf("%d %s: %s", c.done+1, s.name, object)
		}
		w.stepTimes.add(s.name, time.Since(began))
		c.count(s, fault)
	}
	if w.bare {
		return nil // most faults are the agent's
	}
	return c.checkFaults()
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

func pickStep(all []step, r *rand.Rand) step {
	sum := 0
	for _, s := range all {
		sum += s.weight
	}
	at := r.IntN(sum)
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
