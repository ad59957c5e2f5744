package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

// world is the node with everything created by this program.
type world struct {
	settings
	cri     *cri.Client
	check   *checker
	rand    *rand.Rand
	started time.Time
	count   atomic.Int64 // number of VMs, for their tags
	agentUp atomic.Bool  // the agent answers

	// observing: the agent is in mode observe, or has maps of another schema, or restarts for that
	observing  atomic.Bool
	clockSteps atomic.Bool // the wall clock is wrong

	mu         sync.Mutex  // guards instances and domains of the launchers, and renewTimes
	launchers  []*launcher // fixed after newWorld
	plainPod   *launcher   // a pod without a launcher
	bystanders []*subject
	stepTimes  durations
	renewTimes durations // of launchers, in the background
	overflows  int       // storms that should have overflowed the tracker's ring
	background sync.WaitGroup
}

// localNode lets the CRI client run on the node itself.
type localNode struct{}

func (localNode) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, address)
}
func (localNode) ContainerdSocket() string { return "/run/containerd/containerd.sock" }
func (localNode) Done() <-chan struct{}    { return nil }

func newWorld(s settings) (*world, error) {
	client, err := cri.Connect(localNode{})
	if err != nil {
		return nil, err
	}
	w := &world{
		settings: s, cri: client, rand: rand.New(rand.NewPCG(s.seed, 0)), started: time.Now(),
		stepTimes: durations{}, renewTimes: durations{},
	}
	w.agentUp.Store(s.bare)
	w.check = &checker{
		bound: s.bound, absolute: s.absolute, agentUp: w.enforces,
		log: w.logf, began: w.started,
	}
	all := kinds()
	for n := range s.launchers {
		w.launchers = append(w.launchers, &launcher{kind: all[n%len(all)], number: n})
	}
	for n := range s.domains {
		k := kind{"node-level libvirt", cri.OwnPIDs, "crun", "exit 0", true}
		w.launchers = append(w.launchers, &launcher{kind: k, number: s.launchers + n})
	}
	return w, w.makeEmulator()
}

func (w *world) logf(format string, args ...any) {
	fmt.Printf("%8.2f  %s\n", time.Since(w.started).Seconds(), fmt.Sprintf(format, args...))
}

// makeEmulator copies busybox, which starts fast, to a file with QEMU's name. The agent recognises
// an emulator by the name of the executed file.
func (w *world) makeEmulator() error {
	in, err := os.Open("/usr/bin/busybox")
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(workDir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(workDir, emulator)
	out, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// renamedSuffix is the suffix of the emulator's file after a rename, as by dpkg-divert.
const renamedSuffix = ".distrib"

// renameEmulator renames the emulator that VMs execute, and makes a new one. It runs between the
// starts of VMs.
func renameEmulator(_ context.Context, w *world) (string, error) {
	path := filepath.Join(workDir, emulator)
	err := os.Rename(path, path+renamedSuffix)
	return path, errors.Join(err, w.makeEmulator())
}

// readyLaunchers returns the launchers that accept commands and are not busy.
func (w *world) readyLaunchers() []*launcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*launcher
	for _, l := range w.launchers {
		if !l.busy.Load() && w.isReady(l.current) {
			all = append(all, l)
		}
	}
	return all
}

// runningVMs returns a launcher's VMs whose end is not expected.
func (w *world) runningVMs(i *instance) []*subject {
	w.check.mu.Lock()
	defer w.check.mu.Unlock()
	var all []*subject
	for _, s := range i.vms {
		if !s.endExpected && !s.isGone() {
			all = append(all, s)
		}
	}
	i.vms = all
	return all
}

// expectEnd records that this program ends a launcher and its VMs.
func (w *world) expectEnd(i *instance) {
	w.check.expectEnd(i.process)
	w.expectVMsEnd(i)
}

// expectVMsEnd records the end of a launcher's VMs by this program, and returns the running VMs.
// Later VMs, such as a domain still being started, end as well.
func (w *world) expectVMsEnd(i *instance) []*subject {
	all := w.runningVMs(i)
	w.mu.Lock()
	i.vmsEnd = true
	vm := i.domain.vm
	w.mu.Unlock()
	if vm != nil && w.check.mustLive(vm) {
		all = append(all, vm)
	}
	w.check.expectEnd(all...)
	return all
}

// awaitRegistered waits until the agent has registered a launcher with this first process.
func (w *world) awaitRegistered(ctx context.Context, p cri.Pod, pid int) error {
	if w.bare {
		return nil
	}
	for {
		var all []agentapi.Launcher
		err := w.agentGet(ctx, agentapi.PathLaunchers+"/"+p.Namespace+"/"+p.Name, &all)
		for _, l := range all {
			registered := l.State == agentapi.StateRunning && l.Phase == agentapi.PhaseRegistered
			if registered && l.Container.PID == pid {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the agent to register pod %s: %w", p.Name,
				errors.Join(err, ctx.Err()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (w *world) agentGet(ctx context.Context, path string, into any) error {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return localNode{}.Dial(ctx, "unix", agentapi.DefaultSocket)
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: dial}
	client := http.Client{Transport: transport, Timeout: 5 * time.Second}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+path, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("reading %s from the agent: %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// pollAgent updates agentUp until the context ends. It reads the agent's state instead of its
// readiness: without containerd the agent is not ready, but must still end orphans.
func (w *world) pollAgent(ctx context.Context) {
	for !w.bare {
		var n agentapi.Node
		limited, cancel := context.WithTimeout(ctx, time.Second)
		w.agentUp.Store(w.agentGet(limited, agentapi.PathNode, &n) == nil)
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// systemctl runs systemctl on the node.
func systemctl(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
