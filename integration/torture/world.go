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
	cri   *cri.Client
	check *checker
	rand  *rand.Rand
	begun time.Time
	count atomic.Int64 // number of VMs, for their tags
	up    atomic.Bool  // the agent answers

	mu         sync.Mutex // for instances and bystanders; the lists are fixed
	launchers  []*launcher
	plain      *launcher // a pod without a launcher
	bystanders []*subject
	costs      costs // of steps
	making     costs // of launchers, in the background
	overflows  int   // number of storms that should overflow the ring
	background sync.WaitGroup
}

// here runs commands on the node itself.
type here struct{}

func (here) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, address)
}
func (here) ContainerdSocket() string { return "/run/containerd/containerd.sock" }
func (here) Done() <-chan struct{}    { return nil }

func newWorld(s settings) (*world, error) {
	client, err := cri.Connect(here{})
	if err != nil {
		return nil, err
	}
	w := &world{settings: s, cri: client, rand: rand.New(rand.NewPCG(s.seed, 0)), begun: time.Now(), costs: costs{}, making: costs{}}
	w.up.Store(s.bare)
	w.check = &checker{bound: s.bound, absolute: s.absolute, agentUp: w.up.Load, log: w.say, began: w.begun}
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

func (w *world) say(format string, args ...any) {
	fmt.Printf("%8.2f  %s\n", time.Since(w.begun).Seconds(), fmt.Sprintf(format, args...))
}

// makeEmulator copies busybox to a file with QEMU's name. The name of the executed file counts, and
// busybox starts fast.
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

// live returns the launchers that accept commands and are not busy.
func (w *world) live() []*launcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*launcher
	for _, l := range w.launchers {
		if !l.busy.Load() && w.isLive(l.current) {
			all = append(all, l)
		}
	}
	return all
}

// liveVMs returns a launcher's VMs whose end was not requested.
func (w *world) liveVMs(i *instance) []*subject {
	w.check.mu.Lock()
	defer w.check.mu.Unlock()
	var all []*subject
	for _, s := range i.vms {
		if !s.asked && !s.isGone() {
			all = append(all, s)
		}
	}
	i.vms = all
	return all
}

// askAll records that an owner and its VMs are about to end.
func (w *world) askAll(i *instance) {
	w.mu.Lock()
	all := append([]*subject{i.owner}, i.vms...)
	if i.domain.vm != nil {
		all = append(all, i.domain.vm)
	}
	w.mu.Unlock()
	w.check.ask(all...)
}

// awaitKnown waits until the agent knows a launcher with this first process.
func (w *world) awaitKnown(ctx context.Context, p cri.Pod, pid int) error {
	if w.bare {
		return nil
	}
	for {
		var all []agentapi.Launcher
		err := w.agentGet(ctx, agentapi.PathLaunchers+"/"+p.Namespace+"/"+p.Name, &all)
		for _, l := range all {
			if l.Container.PID == pid && l.State == agentapi.StateRunning && l.Phase == agentapi.PhaseRegistered {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the agent to know pod %s: %w", p.Name, errors.Join(err, ctx.Err()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (w *world) agentGet(ctx context.Context, path string, into any) error {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return here{}.Dial(ctx, "unix", agentapi.DefaultSocket)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}, Timeout: 5 * time.Second}
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
		return fmt.Errorf("asking the agent for %s: %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// followAgent notes whether the agent answers, until the context ends. It is asked
// for its health: without containerd it is not ready, and must act all the same.
func (w *world) followAgent(ctx context.Context) {
	for !w.bare {
		var n agentapi.Node
		limited, cancel := context.WithTimeout(ctx, time.Second)
		w.up.Store(w.agentGet(limited, agentapi.PathNode, &n) == nil)
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// systemctl is for units of the node.
func systemctl(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
