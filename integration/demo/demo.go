package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mooring-vm/mooring/integration/agent"
	"github.com/mooring-vm/mooring/integration/cri"
	"github.com/mooring-vm/mooring/integration/node"
)

// policy is the node's policy: it enforces, and allows the namespace "vms" up to 16Gi.
//
//go:embed policy.yaml
var policy string

const (
	namespace = "vms"
	mib       = 1 << 20
	gib       = 1 << 30
)

// Deadlines of single waits. A busy machine takes several times as long as a quiet one.
const (
	waitTimeout    = 15 * time.Minute
	cleanupTimeout = 3 * time.Minute // for the work after an interruption
)

// demo is a running demonstration.
type demo struct {
	node  node.Node
	agent *agent.Agent
	cri   *cri.Client
	// cluster and resized start in the background, for the later parts.
	cluster *cluster
	resized *resizedVM
	screen  *screen
	// defaultLock is the memory lock of a container that Mooring does not change.
	defaultLock string
	// passed and failed count the checks.
	passed, failed int
}

// part is one of Mooring's four parts.
type part struct {
	title, about string
	run          func(*demo, context.Context) error
}

func parts() []part {
	return []part{
		{
			"MEMORY LOCK", "A pod asks for lockable memory in annotations. The policy of the " +
				"node decides. " +
				"The container starts with that limit, or is refused with a reason.",
			(*demo).showMemoryLock,
		},
		{
			"LIFECYCLE", "These VMs run in the libvirt of the node, outside of their pods. " +
				"A VM ends when its pod ends.", (*demo).showLifecycle,
		},
		{
			"LIVE RESIZE", "A sidecar in the pod changes the size of a running VM. The guest " +
				"confirms it.",
			(*demo).showResize,
		},
		{
			"QUOTA", "A live migration needs a second pod, and the quota of the namespace has no " +
				"room for it. " +
				"This part runs on this machine: etcd, kube-apiserver, KubeVirt's virt-controller.",
			(*demo).showMigration,
		},
	}
}

// run shows all parts. The pods stay on the node. A failed part counts as a failed check,
// and the next part follows, unless the node is lost or ctx has ended.
func (d *demo) run(ctx context.Context) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	d.startResizedVM(ctx)
	began := time.Now()
	all := parts()
	for i, p := range all {
		d.screen.part(i+1, len(all), p.title, p.about)
		err := p.run(d, ctx)
		if ctx.Err() != nil || errors.Is(err, node.ErrLost) {
			return err
		}
		if err != nil {
			d.check(false, "", err.Error())
		}
	}
	return d.conclude(time.Since(began))
}

// conclude prints the count of the checks, and fails if one of them failed.
func (d *demo) conclude(took time.Duration) error {
	if d.failed > 0 {
		return fmt.Errorf("%d of %d checks failed, see WRONG above", d.failed, d.passed+d.failed)
	}
	d.screen.line("")
	d.screen.line(d.screen.in(bold, fmt.Sprintf("All %d checks passed, in %v.", d.passed,
		took.Round(time.Second))))
	d.screen.line(
		`On a node of "hack/node up" the pods stay until the next "make run". To look around ` +
			`there: ` +
			`hack/node shell, then mooring ps, mooring inspect POD, mooring watch. hack/node ` +
			`down ends the node.`)
	return nil
}

// prepare removes the pods of an earlier run, and reads the node's default memory lock.
func (d *demo) prepare(ctx context.Context) error {
	if err := d.cri.RemovePods(ctx, labels()); err != nil {
		return fmt.Errorf("removing the pods of an earlier run: %w", err)
	}
	pid, err := d.node.Output(ctx, "systemctl", "show", "--property=MainPID", "--value",
		"containerd.service")
	if err != nil {
		return err
	}
	d.defaultLock, err = d.memlockOf(ctx, pid)
	return err
}

// check prints the outcome of a check and counts it.
func (d *demo) check(ok bool, shown, wrong string) {
	if ok {
		d.passed++
		d.screen.result(true, shown)
	} else {
		d.failed++
		d.screen.result(false, wrong)
	}
}

// labels find the pods of an earlier run.
func labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "mooring-demo"}
}

// pod is the pod vm-NUMBER. The policy's profile recognises it as a launcher unless it is plain.
func pod(number int, annotations map[string]string, plain bool) cri.Pod {
	p := cri.Pod{
		Namespace: namespace, Name: podName(number),
		UID:         fmt.Sprintf("00000000-0000-4000-8000-%012d", number),
		Annotations: annotations, Labels: labels(),
	}
	if !plain {
		p.Labels["kubevirt.io"] = "virt-launcher"
	}
	return p
}

func podName(number int) string { return fmt.Sprintf("vm-%d", number) }

// await polls until done returns true. It returns false after waitTimeout.
func (d *demo) await(
	ctx context.Context, condition string, done func() (bool, error),
) (ok bool, err error) {
	late, tick := time.After(waitTimeout), time.NewTicker(200*time.Millisecond)
	defer tick.Stop()
	err = d.screen.during("waiting for "+condition, func() error {
		for {
			if ok, err = done(); ok || err != nil {
				return err
			}
			select {
			case <-tick.C:
			case <-late:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return ok, err
}

// showCommand runs a command of mooring on the node and prints its output.
func (d *demo) showCommand(ctx context.Context, args ...string) error {
	out, err := d.agent.CLI(ctx, args...)
	d.screen.output("node# mooring "+strings.Join(args, " "), out)
	return err
}
