package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// agentNode is an agent with many launchers. Tests add further launchers and kill them.
type agentNode struct {
	launchers *launcherSet
	agent     *realAgent
	last      int // number of the last launcher

	mu     sync.Mutex
	events map[string]chan agentapi.Event // by the pod's name
}

// openAgentNode starts n permanent launchers and the agent.
func openAgentNode(ctx context.Context, binary string, n int) (*agentNode, error) {
	launchers, err := startLaunchers("", n, true)
	if err != nil {
		return nil, err
	}
	w := &agentNode{launchers: launchers, last: n, events: map[string]chan agentapi.Event{}}
	if w.agent, err = startAgent(ctx, binary, launchers.runtime); err != nil {
		return nil, errors.Join(err, launchers.close())
	}
	if _, err := w.agent.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, w.close())
	}
	if _, err := launchers.awaitPlugin(ctx); err != nil {
		return nil, errors.Join(err, w.close())
	}
	if err := w.agent.awaitVMs(ctx, n); err != nil {
		return nil, errors.Join(err, w.close())
	}
	go w.listen(ctx)
	return w, nil
}

func (w *agentNode) close() error { return errors.Join(w.agent.stop(), w.launchers.close()) }

// listen distributes the agent's events until the agent ends.
func (w *agentNode) listen(ctx context.Context) {
	for event, err := range w.agent.client().Events(ctx) {
		if err != nil {
			return
		}
		w.mu.Lock()
		to := w.events[event.Pod.Name]
		w.mu.Unlock()
		if to == nil {
			continue
		}
		select {
		case to <- event:
		default: // more events than a test waits for
		}
	}
}

// dyingLauncher is a launcher with a VM, to be killed.
type dyingLauncher struct {
	member
	in      cgroup
	process *exec.Cmd
	vm      *vm
	events  chan agentapi.Event
}

// newLauncher makes a launcher with an empty cgroup.
func (w *agentNode) newLauncher() (d *dyingLauncher, err error) {
	w.last++
	d = &dyingLauncher{member: launcher(w.last), events: make(chan agentapi.Event, 64)}
	lowerMemlock(d.member)
	delete(d.pod.Annotations, "memory.high.cgroup.mooring.dev")
	if d.in, err = newCgroup("cri-" + d.ctr.Id); err != nil {
		return nil, err
	}
	d.ctr.Linux.CgroupsPath = "/" + filepath.Base(string(d.in))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events[d.pod.Name] = d.events
	return d, nil
}

// launch starts a launcher like a runtime, and its VM. It waits until the agent knows both.
func (w *agentNode) launch(ctx context.Context, d *dyingLauncher, program *exec.Cmd) (err error) {
	if err := w.startLauncher(ctx, d); err != nil {
		return fmt.Errorf("starting launcher %s: %w", d.pod.Name, err)
	}
	if d.vm, err = startVM(d.in, program); err != nil {
		return err
	}
	_, err = d.await(ctx, agentapi.ReasonVMStarted)
	return err
}

// startLauncher repeats the runtime's steps and calls the plugin at the same points.
func (w *agentNode) startLauncher(ctx context.Context, d *dyingLauncher) error {
	if _, err := w.launchers.create(ctx, d.member); err != nil {
		return err
	}
	if err := w.launchers.StartContainer(ctx,
		&nri.StartContainerRequest{Pod: d.pod, Container: d.ctr}); err != nil {
		return err
	}
	process := exec.Command("sleep", "1000000")
	if err := d.in.start(process); err != nil {
		return err
	}
	d.process = process
	d.ctr.Pid, d.ctr.State = uint32(d.process.Process.Pid), nri.ContainerState_CONTAINER_RUNNING
	return w.launchers.PostStartContainer(ctx, &nri.PostStartContainerRequest{Pod: d.pod,
		Container: d.ctr})
}

// await waits for an event of the launcher and returns its time.
func (d *dyingLauncher) await(ctx context.Context, reason agentapi.Reason) (host.Boottime, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("launcher %s: no event %s: %w", d.pod.Name, reason, ctx.Err())
		case event := <-d.events:
			if event.Reason == reason {
				return host.LinuxClock{}.Now().Add(-time.Since(event.Time)), nil
			}
		}
	}
}

// death contains the durations of one death's steps.
type death struct {
	sent      time.Duration // from the launcher's death until the agent sends SIGTERM
	received  time.Duration // until the VM receives SIGTERM, if it reports that
	confirmed time.Duration // until the agent reports the VM's end
	overhead  time.Duration // confirmed minus the VM's shutdown time
}

// die kills the launcher and waits until the agent reports the end of its VM. If the VM reports its
// SIGTERM, that time counts. Otherwise the agent's time counts.
func (d *dyingLauncher) die(ctx context.Context, reportsSignal bool) (death, error) {
	if err := pause(ctx, idlePause); err != nil {
		return death{}, err
	}
	killed := host.LinuxClock{}.Now()
	if err := d.process.Process.Kill(); err != nil {
		return death{}, err
	}
	sent, err := d.await(ctx, agentapi.ReasonVMTerminated)
	if err != nil {
		return death{}, err
	}
	received := sent
	if reportsSignal {
		if received, err = d.vm.signalTime(); err != nil {
			return death{}, err
		}
	}
	confirmed, err := d.await(ctx, agentapi.ReasonVMGone)
	if err != nil {
		return death{}, err
	}
	gone, err := waitFor(ctx, d.vm.gone)
	return deathOf(killed, sent, received, gone, confirmed), err
}

// deathOf subtracts the VM's own time, from its SIGTERM to its end in the kernel, from the whole.
func deathOf(killed, sent, received, gone, confirmed host.Boottime) death {
	return death{
		sent:      sent.Sub(killed),
		received:  received.Sub(killed),
		confirmed: confirmed.Sub(killed),
		overhead:  confirmed.Sub(killed) - gone.Sub(received),
	}
}

// removeLauncher removes the remains of a launcher, like a runtime.
func (w *agentNode) removeLauncher(ctx context.Context, d *dyingLauncher) error {
	err := d.in.remove(ctx)
	if d.process != nil {
		_ = d.process.Wait() // it was killed
	}
	if d.vm != nil {
		d.vm.reap()
	}
	w.mu.Lock()
	delete(w.events, d.pod.Name)
	w.mu.Unlock()
	return errors.Join(err, w.launchers.remove(ctx, d.member))
}

// endDirectly sends SIGTERM to a VM process without an agent, and returns the time until its end.
func endDirectly(ctx context.Context, program *exec.Cmd) (_ time.Duration, err error) {
	in, err := newCgroup("direct")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, in.remove(ctx)) }()
	v, err := startVM(in, program)
	if err != nil {
		return 0, err
	}
	defer v.reap()
	began := host.LinuxClock{}.Now()
	if err := v.cmd.Process.Signal(unix.SIGTERM); err != nil {
		return 0, err
	}
	gone, err := waitFor(ctx, v.gone)
	return gone.Sub(began), err
}
