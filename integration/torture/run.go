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

// runFromHost installs the agent and this program on the node, and runs the program there.
func runFromHost(ctx context.Context, s settings) (err error) {
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

// runOnNode runs the steps, waits for their effects, and prints the findings.
func runOnNode(ctx context.Context, s settings) error {
	w, err := newWorld(s)
	if err != nil {
		return err
	}
	defer w.cri.Close()
	if err := w.removeLeftovers(ctx); err != nil {
		return err
	}
	if !w.bare && w.domains > 0 {
		if err := installGate(ctx); err != nil {
			return err
		}
	}
	if err := w.runPlainPod(ctx); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	w.background.Go(func() { w.pollAgent(running) })
	w.background.Go(func() {
		if err := w.check.run(running); err != nil {
			w.logf("the checker: %v", err)
		}
	})
	renewing, stopRenewing := context.WithCancel(running)
	w.background.Go(func() { w.renewEnded(renewing) })
	w.awaitAllReady(renewing)
	began := time.Now()
	err = w.runSteps(running)
	took := time.Since(began)
	stopRenewing()
	w.awaitNoOrphans(running)
	lostEvents := w.checkLostEvents(ctx)
	stop()
	w.background.Wait()
	return errors.Join(err, w.printReport(took), lostEvents, w.cleanUp(context.WithoutCancel(ctx)))
}

// awaitNoOrphans waits until each orphan has ended or has a finding.
func (w *world) awaitNoOrphans(ctx context.Context) {
	pause(ctx, 2*time.Second) // for the effects of the last steps
	for w.check.orphans() > 0 && ctx.Err() == nil {
		pause(ctx, tick)
	}
}

// checkLostEvents fails if the tracker lost no event, although storms overflowed its ring.
func (w *world) checkLostEvents(ctx context.Context) error {
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
	fmt.Printf("\nlost events of the tracker: %d; storms while the agent was paused: %d\n",
		n.Tracker.LostEvents, w.overflows)
	if w.overflows > 0 && n.Tracker.LostEvents == 0 {
		return errors.New("no event was lost: the storms were too small")
	}
	return nil
}

func (w *world) printReport(took time.Duration) error {
	w.stepTimes.print(os.Stdout, "step")
	w.renewTimes.print(os.Stdout, "renewal in the background")
	c := w.check
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Printf("\nsteps: %d in %.0f s; seed: %d; VMs: %d; ", w.steps, took.Seconds(), w.seed,
		w.count.Load())
	fmt.Printf("longest life of an orphan: %.2f s; findings: %d\n", c.worst.Seconds(),
		len(c.findings))
	for _, text := range c.findings {
		fmt.Println("  " + text)
	}
	if len(c.findings) > 0 {
		return fmt.Errorf("%d findings", len(c.findings))
	}
	return nil
}

// cleanUp kills all watched processes and removes all pods of this program.
func (w *world) cleanUp(ctx context.Context) error {
	c := w.check
	c.mu.Lock()
	for _, s := range c.subjects {
		s.endExpected = true
		_ = s.signal(unix.SIGKILL)
	}
	c.mu.Unlock()
	return w.removeLeftovers(ctx)
}

// removeLeftovers removes emulators and pods of earlier runs. Emulators come first: the runtime
// does not notice a container's end while an emulator holds the container's output open.
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
		if p, err := openProcess(pid); err == nil {
			_ = p.signal(unix.SIGKILL)
			p.close()
		}
	}
	return w.retryUnavailable(ctx, func() error {
		return w.cri.RemovePods(ctx, map[string]string{"io.kubernetes.pod.namespace": namespace})
	})
}
