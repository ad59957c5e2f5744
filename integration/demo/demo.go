package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mooring-vm/mooring/integration/agent"
	"github.com/mooring-vm/mooring/integration/cri"
	"github.com/mooring-vm/mooring/integration/node"
)

// cleanupTimeout bounds what is done after the demonstration was interrupted.
const cleanupTimeout = 15 * time.Second

type demo struct {
	node  node.Node
	agent *agent.Agent
	cri   *cri.Client
	// memlock is what containers have that nobody gives another one.
	memlock string
	table   table
}

// label finds the pods of an earlier run.
func label() map[string]string { return map[string]string{"app.kubernetes.io/name": "mooring-demo"} }

// run goes through all scenarios and prints what came of them, as far as it
// got. The pods stay. It fails if anything was not as it should be.
func (d *demo) run(ctx context.Context) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	err := d.playAll(ctx)
	d.table.print()
	return errors.Join(err, d.table.verdict())
}

// prepare removes what an earlier run left, and learns the node's default.
func (d *demo) prepare(ctx context.Context) error {
	if err := d.cri.RemovePods(ctx, label()); err != nil {
		return fmt.Errorf("removing the pods of an earlier run: %w", err)
	}
	pid, err := d.node.Output(ctx, "systemctl", "show", "--property=MainPID", "--value", "containerd.service")
	if err != nil {
		return err
	}
	d.memlock, err = d.memlockOf(ctx, pid)
	return err
}

func (d *demo) playAll(ctx context.Context) error {
	running := whileTheAgentRuns()
	if err := d.playSome(ctx, 1, running); err != nil {
		return err
	}
	if err := d.showCLI(ctx); err != nil {
		return err
	}
	if err := d.playVMs(ctx, len(running)+1); err != nil {
		return err
	}
	return d.withoutTheAgent(ctx, func() error {
		return d.playSome(ctx, len(running)+len(vmScenarios())+1, whileTheAgentIsStopped())
	})
}

// withoutTheAgent stops the agent, and starts it again whatever happens.
func (d *demo) withoutTheAgent(ctx context.Context, do func() error) (err error) {
	say("stopping the agent")
	defer func() {
		say("starting the agent again")
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		err = errors.Join(err, d.agent.Start(ctx))
	}()
	if err := d.agent.Stop(ctx); err != nil {
		return err
	}
	return do()
}

func (d *demo) playSome(ctx context.Context, first int, some []scenario) error {
	for i, s := range some {
		say("pod %d: %s", first+i, s.title)
		o, err := d.play(ctx, first+i, s)
		if err != nil {
			return err
		}
		d.table.add(row{number: first + i, title: s.title, asked: asked(s), shown: o.lines(), wrong: s.want.check(o, d.memlock)})
	}
	return nil
}

func (d *demo) showCLI(ctx context.Context) error {
	out, err := d.agent.CLI(ctx, "ps")
	fmt.Printf("\nnode# mooring ps\n%s\n\n", out)
	if err != nil {
		return err
	}
	out, err = d.agent.CLI(ctx, "inspect", "vms/"+podName(3))
	fmt.Printf("node# mooring inspect vms/%s\n%s\n\n", podName(3), out)
	return err
}

func podName(number int) string { return fmt.Sprintf("vm-%d", number) }

// play creates a scenario's pod and looks at what came of it.
func (d *demo) play(ctx context.Context, number int, s scenario) (outcome, error) {
	pod := cri.Pod{
		Namespace: "vms", Name: podName(number), UID: fmt.Sprintf("00000000-0000-4000-8000-%012d", number),
		Annotations: s.annotations, Labels: label(),
	}
	if !s.plain {
		pod.Labels["kubevirt.io"] = "virt-launcher"
	}
	sandbox, err := d.cri.RunPod(ctx, pod)
	if err != nil {
		return outcome{}, err
	}
	container, err := sandbox.Run(ctx, cri.Container{Name: "compute", MemoryLimit: s.memoryLimit})
	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, node.ErrLost)):
		return outcome{}, err
	case err != nil:
		return outcome{refusal: reason(err)}, nil
	}
	return d.seen(ctx, container, s.want.files)
}

// reason is what the kubelet would show, without the way that it came.
func reason(err error) string {
	msg := err.Error()
	for _, lead := range []string{"mooring refuses", "required plugin"} {
		if i := strings.Index(msg, lead); i >= 0 {
			return msg[i:]
		}
	}
	return msg
}

// seen asks the kernel.
func (d *demo) seen(ctx context.Context, c *cri.Instance, files []file) (outcome, error) {
	pid, err := c.Pid(ctx)
	if err != nil {
		return outcome{}, err
	}
	var o outcome
	if o.memlock, err = d.memlockOf(ctx, fmt.Sprint(pid)); err != nil {
		return outcome{}, err
	}
	for _, f := range files {
		value, err := d.node.Output(ctx, "sh", "-c", fmt.Sprintf("cat /sys/fs/cgroup$(sed -n s/^0:://p /proc/%d/cgroup)/%s", pid, f.name))
		if err != nil {
			return outcome{}, err
		}
		o.files = append(o.files, file{f.name, value})
	}
	return o, nil
}

func (d *demo) memlockOf(ctx context.Context, pid string) (string, error) {
	limit, err := d.node.Output(ctx, "prlimit", "--memlock", "--output=SOFT,HARD", "--noheadings", "--raw", "--pid="+pid)
	return readable(limit), err
}
