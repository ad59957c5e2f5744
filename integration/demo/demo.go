package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mooring-vm/mooring/integration/agent"
	"github.com/mooring-vm/mooring/integration/cri"
	"github.com/mooring-vm/mooring/integration/node"
)

type demo struct {
	node  node.Node
	agent *agent.Agent
	cri   *cri.Client
}

// run goes through all scenarios, and shows what `mooring` says while the pods
// are there.
func (d *demo) run(ctx context.Context) (err error) {
	var table table
	var sandboxes []*cri.Sandbox
	defer func() {
		for _, s := range sandboxes {
			err = errors.Join(err, s.Remove(context.WithoutCancel(ctx)))
		}
	}()
	stopped := false
	for i, s := range scenarios() {
		if s.agentStopped && !stopped {
			if err := d.showCLI(ctx); err != nil {
				return err
			}
			say("stopping the agent")
			if err := d.agent.Stop(ctx); err != nil {
				return err
			}
			stopped = true
		}
		say("pod %d: %s", i+1, s.title)
		sandbox, row, err := d.play(ctx, i+1, s)
		if sandbox != nil {
			sandboxes = append(sandboxes, sandbox)
		}
		if err != nil {
			return err
		}
		table.add(row)
	}
	say("starting the agent again")
	if err := d.agent.Start(ctx); err != nil {
		return err
	}
	table.print()
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
func (d *demo) play(ctx context.Context, number int, s scenario) (*cri.Sandbox, row, error) {
	pod := cri.Pod{
		Namespace: "vms", Name: podName(number), UID: fmt.Sprintf("00000000-0000-4000-8000-%012d", number),
		Annotations: s.annotations,
	}
	if !s.plain {
		pod.Labels = map[string]string{"kubevirt.io": "virt-launcher"}
	}
	sandbox, err := d.cri.RunPod(ctx, pod)
	if err != nil {
		return nil, row{}, err
	}
	r := row{number: number, title: s.title, asked: asked(s)}
	container, err := sandbox.Run(ctx, cri.Container{Name: "compute", MemoryLimit: s.memoryLimit})
	if err != nil {
		r.shown = []string{"refused: " + reason(err)}
		return sandbox, r, ctx.Err()
	}
	r.shown, err = d.seen(ctx, container, s.files)
	return sandbox, r, err
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
func (d *demo) seen(ctx context.Context, c *cri.Instance, files []string) ([]string, error) {
	pid, err := c.Pid(ctx)
	if err != nil {
		return nil, err
	}
	limit, err := d.node.Output(ctx, "prlimit", "--memlock", "--output=SOFT,HARD", "--noheadings", "--raw", fmt.Sprintf("--pid=%d", pid))
	if err != nil {
		return nil, err
	}
	shown := []string{"RLIMIT_MEMLOCK " + readable(limit)}
	for _, f := range files {
		value, err := d.node.Output(ctx, "sh", "-c", fmt.Sprintf("cat /sys/fs/cgroup$(cut -d: -f3 /proc/%d/cgroup)/%s", pid, f))
		if err != nil {
			return nil, err
		}
		shown = append(shown, f+" "+value)
	}
	return shown, nil
}
