package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/integration/agent"
	"github.com/mooring-vm/mooring/integration/node"
)

//go:embed policy.yaml
var policy string

// selfOnNode is the path of this program on the node.
const selfOnNode = workDir + "/torture"

// fromOutside installs the agent and this program on the node, and runs the program there.
func fromOutside(ctx context.Context, s settings) (err error) {
	n, err := throwaway.AttachCurrent(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Stop()) }()
	if !s.bare {
		if _, err := agent.Install(ctx, n, ".", policy); err != nil {
			return err
		}
	}
	if err := n.Push(ctx, "/proc/self/exe", selfOnNode, 0o755); err != nil {
		return err
	}
	args := append([]string{selfOnNode, "node"}, s.args()...)
	return n.Run(ctx, node.Command{Args: args, Stdout: os.Stdout, Stderr: os.Stderr})
}

// onNode takes the steps, waits for their results, and prints the findings.
func onNode(ctx context.Context, s settings) error {
	w, err := newWorld(s)
	if err != nil {
		return err
	}
	defer w.cri.Close()
	if err := w.removeLeftovers(ctx); err != nil {
		return err
	}
	if err := w.openPlain(ctx); err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	w.background.Go(func() { w.followAgent(working) })
	w.background.Go(func() {
		if err := w.check.run(working); err != nil {
			w.say("the checker: %v", err)
		}
	})
	keeping, stopKeeping := context.WithCancel(working)
	w.background.Go(func() { w.keep(keeping) })
	w.awaitFull(keeping)
	began := time.Now()
	err = w.walk(working)
	took := time.Since(began)
	stopKeeping()
	w.settle(working)
	lost := w.lost(ctx)
	stop()
	w.background.Wait()
	return errors.Join(err, w.report(took), lost, w.clear(context.WithoutCancel(ctx)))
}

// settle waits until no VM is an orphan, or each orphan has become a finding.
func (w *world) settle(ctx context.Context) {
	pause(ctx, 2*time.Second) // for the effects of the last steps
	for w.check.orphans() > 0 && ctx.Err() == nil {
		pause(ctx, tick)
	}
}

// lost fails if storms should have made the tracker lose events and it reports none.
func (w *world) lost(ctx context.Context) error {
	var n agentapi.Node
	if w.bare {
		return nil
	}
	// One of the last steps may have killed the agent.
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := w.agentGet(limited, agentapi.PathNode, &n)
	for ; err != nil && limited.Err() == nil; err = w.agentGet(limited, agentapi.PathNode, &n) {
		pause(limited, tick)
	}
	if err != nil {
		return err
	}
	fmt.Printf("\nthe tracker has lost %d events, in %d storms that the agent slept through\n", n.Tracker.LostEvents, w.overflows)
	if w.overflows > 0 && n.Tracker.LostEvents == 0 {
		return errors.New("no event was lost: the storms were too small")
	}
	return nil
}

func (w *world) report(took time.Duration) error {
	w.costs.print(os.Stdout, "step")
	w.making.print(os.Stdout, "meanwhile made")
	c := w.check
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Printf("\n%d steps in %.0f s, seed %d; %d VMs; longest that a VM outlived its owner: %.2f s; findings: %d\n",
		w.steps, took.Seconds(), w.seed, w.count.Load(), c.worst.Seconds(), len(c.findings))
	for _, text := range c.findings {
		fmt.Println("  " + text)
	}
	if len(c.findings) > 0 {
		return fmt.Errorf("%d findings", len(c.findings))
	}
	return nil
}

// clear removes everything that this program created.
func (w *world) clear(ctx context.Context) error {
	c := w.check
	c.mu.Lock()
	for _, s := range c.subjects {
		s.asked = true
		_ = s.signal(unix.SIGKILL)
	}
	c.mu.Unlock()
	return w.removeLeftovers(ctx)
}

// removeLeftovers removes the remains of earlier runs. VMs come first: while a VM holds a
// container's output open, the runtime does not notice the container's end.
func (w *world) removeLeftovers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	pids, err := allPids()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if !runsEmulator(pid, "") {
			continue
		}
		if p, err := hold(pid); err == nil {
			_ = p.signal(unix.SIGKILL)
			p.close()
		}
	}
	return w.insist(ctx, func() error {
		return w.cri.RemovePods(ctx, map[string]string{"io.kubernetes.pod.namespace": namespace})
	})
}
