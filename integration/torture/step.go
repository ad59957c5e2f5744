package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// step is an event on a node.
type step struct {
	name   string
	weight int // in a thousand
	// do executes the step. It returns its object, or "" without one.
	do func(ctx context.Context, w *world) (string, error)
}

// steps prefer cheap steps: renewing a launcher takes seconds on an emulated node, events within a
// launcher take milliseconds.
func steps() []step {
	return []step{
		{"VM starts", 420, startsVM},
		{"VM ends", 170, endsVM},
		{"heartbeat", 90, heartbeats},
		{"capability probe", 30, probes},
		{"bystander starts", 90, startsBystander},
		{"bystander ends", 70, endsBystander},
		{"owner killed", 20, killsOwner},
		{"owner leaves", 8, leaves},
		{"pod asks for a stop", 20, asksForStop},
		{"container stopped", 5, stopsContainer},
		{"container removed by force", 8, removesContainer},
		{"pod removed by force", 3, removesPod},
		{"shim killed", 2, killsShim},
		{"fork storm", 12, storms},
		{"agent paused", 20, pausesAgent},
		{"agent paused in a storm", 1, overflows},
		{"agent killed", 10, killsAgent},
		{"fence killed", 2, killsUnit("mooring-fence.service")},
		{"containerd restarted", 1, restartsContainerd},
		{"containerd killed", 1, killsUnit("containerd.service")},
		{"libvirtd killed", 2, killsUnit("libvirtd.service")},
	}
}

// errNever reports a step that this node can never execute.
var errNever = errors.New("not on this node")

// stepPatience is how long a step waits for an object. Launchers are renewed at their own pace.
const stepPatience = 10 * time.Second

// walk takes random steps. Steps without an object do not count.
func (w *world) walk(ctx context.Context) error {
	all := steps()
	sum := 0
	for _, s := range all {
		sum += s.weight
	}
	for n := 1; n <= w.steps; {
		s := pick(all, w.rand.IntN(sum))
		began := time.Now()
		what, err := w.take(ctx, s)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errNever):
			continue
		case err != nil:
			w.say("%d %s: %v", n, s.name, err)
		default:
			w.say("%d %s: %s", n, s.name, what)
		}
		w.costs.add(s.name, time.Since(began))
		n++
	}
	return nil
}

// take executes a step as soon as it has an object.
func (w *world) take(ctx context.Context, s step) (string, error) {
	for waited := time.Duration(0); waited < stepPatience; {
		what, err := s.do(ctx, w)
		if what != "" || err != nil {
			return what, err
		}
		d := pause(ctx, 20*time.Millisecond)
		w.costs.add("(waiting for a launcher)", d)
		waited += d
	}
	return "", errNever
}

func pick(all []step, at int) step {
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

// anyLauncher returns a random launcher that accepts commands and fits. It returns nil while there
// is none, and errNever if none fits.
func (w *world) anyLauncher(fit func(*launcher) bool) (*launcher, error) {
	live := w.live()
	fits := live[:0]
	for _, l := range live {
		if fit(l) {
			fits = append(fits, l)
		}
	}
	switch {
	case len(fits) > 0:
		return fits[w.rand.IntN(len(fits))], nil
	case len(live) > 0:
		return nil, errNever
	}
	return nil, nil
}

func anyOne(*launcher) bool { return true }

// ways are ways in which an owner starts a VM: as a child, by a double fork, ignoring SIGTERM, and
// as a real QEMU.
func ways() []string {
	return []string{
		"vm TAG &", "vm TAG >/dev/null 2>&1 &", "(vm TAG >/dev/null 2>&1 &)", "(vm TAG >/dev/null 2>&1 &)",
		"(trap '' TERM; vm TAG >/dev/null 2>&1) &", "qemu TAG >/dev/null 2>&1 &",
	}
}

// vmsEach is the maximum number of VMs per launcher.
const vmsEach = 4

func startsVM(ctx context.Context, w *world) (string, error) {
	l, err := w.anyLauncher(func(l *launcher) bool { return !l.domain && len(w.liveVMs(l.current)) < vmsEach })
	if l == nil {
		return "", err
	}
	all := ways()
	s, err := w.startVM(ctx, l, l.current, all[w.rand.IntN(len(all))])
	if err != nil {
		return "", err
	}
	err = w.place(l, s)
	l.current.vms = append(l.current.vms, s)
	w.check.watch(s)
	return s.name, err
}

// place leaves a VM in its cgroup, or moves it below or out of its launcher's cgroup.
func (w *world) place(l *launcher, s *subject) error {
	switch at := w.rand.IntN(10); {
	case at < 6:
		return nil
	case at < 8:
		s.name += ", in a cgroup below"
		return s.moveTo(fmt.Sprintf("%s/vm-%d", l.current.cgroup, s.pid))
	default:
		s.name += ", elsewhere"
		return s.moveTo(fmt.Sprintf("/sys/fs/cgroup/machine.slice/torture-%d.scope", s.pid))
	}
}

func endsVM(_ context.Context, w *world) (string, error) {
	l, err := w.anyLauncher(func(l *launcher) bool { return len(w.liveVMs(l.current)) > 0 })
	if l == nil {
		return "", err
	}
	vms := w.liveVMs(l.current)
	s := vms[w.rand.IntN(len(vms))]
	w.check.ask(s)
	return s.name, s.signal(unix.SIGKILL)
}

func heartbeats(_ context.Context, w *world) (string, error) {
	return w.tellsAny("touch /run/mooring/pod/heartbeat")
}

// probes runs QEMU like libvirt's capability probe.
func probes(_ context.Context, w *world) (string, error) {
	return w.tellsAny(`(echo '{"execute":"qmp_capabilities"}{"execute":"quit"}' | busybox chroot /node ` + emulator +
		` -S -no-user-config -nodefaults -nographic -machine none,accel=tcg -qmp stdio >/dev/null 2>&1 &)`)
}

// storms causes more events at once than the agent may read.
func storms(_ context.Context, w *world) (string, error) {
	return w.tellsAny(`(for i in $(seq 1500); do (:); done) &`)
}

func (w *world) tellsAny(line string) (string, error) {
	l, err := w.anyLauncher(anyOne)
	if l == nil {
		return "", err
	}
	return fmt.Sprintf("launcher %d", l.number), l.current.tell(line)
}
