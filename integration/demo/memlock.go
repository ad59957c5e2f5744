package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/plugin"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/integration/cri"
	"github.com/mooring-vm/mooring/integration/node"
)

// launcher is a pod that asks for a memory lock or for cgroup settings.
type launcher struct {
	title       string
	annotations map[string]string
	memoryLimit int64 // of the container, in bytes
	plain       bool  // a pod without the label of a launcher
	expect      expectation
}

func withAgent() []launcher {
	return []launcher{
		{
			title: "a VM with a VFIO device: 4Gi of guest memory, and 1Gi that libvirt " +
				"adds for device I/O",
			annotations: map[string]string{api.GuestMemoryKey: "4Gi", api.DevicesKey: "vfio=1"},
			memoryLimit: 5 * gib,
			expect:      expectation{memlock: "5Gi"},
		},
		{
			title:       "a VM that may lock all memory inside its memory limit",
			annotations: map[string]string{api.RequiresLockKey: "true", api.ValueKey: "unlimited"},
			memoryLimit: 2 * gib,
			expect:      expectation{memlock: "unlimited"},
		},
		{
			title: "a VM with cgroup settings",
			annotations: map[string]string{
				"memory.high" + api.CgroupSuffix:     "1536Mi",
				"memory.swap.max" + api.CgroupSuffix: "0",
				"pids.max" + api.CgroupSuffix:        "512",
			},
			memoryLimit: 2 * gib,
			expect: expectation{
				memlock: defaultLock,
				files: []cgroupFile{{"memory.high", "1610612736"}, {"memory.swap.max", "0"},
					{"pids.max", "512"}},
			},
		},
		{
			title:       "a VM that asks for more than the 16Gi of the policy",
			annotations: map[string]string{api.RequiresLockKey: "true", api.ValueKey: "64Gi"},
			memoryLimit: 2 * gib,
			expect: expectation{refusal: []string{"mooring refuses", api.ValueKey,
				`"64Gi"`, "16Gi"}},
		},
		{
			title:       "a VM with an invalid quantity",
			annotations: map[string]string{api.RequiresLockKey: "true", api.ValueKey: "1e30"},
			memoryLimit: 2 * gib,
			expect:      expectation{refusal: []string{"mooring refuses", api.ValueKey, `"1e30"`}},
		},
		{
			title:       "a plain pod: Mooring changes nothing",
			memoryLimit: gib,
			plain:       true,
			expect:      expectation{memlock: defaultLock},
		},
	}
}

func withoutAgent() []launcher {
	return []launcher{
		{
			title: "a VM that requires Mooring: containerd holds it back",
			annotations: map[string]string{
				api.RequiresLockKey:              "true",
				plugin.RequiredPluginsAnnotation: `["mooring"]`,
			},
			memoryLimit: 2 * gib,
			expect:      expectation{refusal: []string{`required plugin "mooring" not present`}},
		},
		{
			title:       "a plain pod: it starts",
			memoryLimit: gib,
			plain:       true,
			expect:      expectation{memlock: defaultLock},
		},
	}
}

func (d *demo) showMemoryLock(ctx context.Context) error {
	if err := d.showLaunchers(ctx, 1, withAgent()); err != nil {
		return err
	}
	if err := d.showCommand(ctx, "ps"); err != nil {
		return err
	}
	return d.withoutAgent(ctx, func() error {
		return d.showLaunchers(ctx, len(withAgent())+1, withoutAgent())
	})
}

// withoutAgent stops the agent, calls do, and starts the agent again in every case.
func (d *demo) withoutAgent(ctx context.Context, do func() error) (err error) {
	// The pod of the live resize starts in the background and needs the agent.
	if err := d.screen.during("starting "+podName(resizeNumber)+" for a later part",
		d.resized.awaitStart); err != nil {
		return err
	}
	d.screen.step("stopping the agent")
	defer func() {
		d.screen.step("starting the agent again")
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		err = errors.Join(err, d.agent.Start(ctx))
	}()
	if err := d.agent.Stop(ctx); err != nil {
		return err
	}
	return do()
}

func (d *demo) showLaunchers(ctx context.Context, first int, all []launcher) error {
	for i, l := range all {
		d.screen.step(podName(first+i) + ", " + l.title)
		d.showAnnotations(l.annotations)
		var o outcome
		err := d.screen.during("starting the pod", func() (err error) {
			o, err = d.launch(ctx, first+i, l)
			return err
		})
		if err != nil {
			return err
		}
		wrong := l.expect.compare(o, d.defaultLock)
		d.check(len(wrong) == 0, o.String(), strings.Join(wrong, ", "))
	}
	return nil
}

func (d *demo) showAnnotations(annotations map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		d.screen.detail(key + ": " + annotations[key])
	}
}

// launch creates a pod and reads its limits from the kernel. A refusal is no error.
func (d *demo) launch(ctx context.Context, number int, l launcher) (outcome, error) {
	sandbox, err := d.cri.RunPod(ctx, pod(number, l.annotations, l.plain))
	if err != nil {
		return outcome{}, err
	}
	container, err := sandbox.Run(ctx, cri.Container{Name: "compute", MemoryLimit: l.memoryLimit})
	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, node.ErrLost)):
		return outcome{}, err
	case err != nil:
		return outcome{refusal: reason(err)}, nil
	}
	return d.limitsOf(ctx, container, l.expect.files)
}

// reason is the part of the message with the cause, as kubelet shows it.
func reason(err error) string {
	msg := err.Error()
	for _, lead := range []string{"mooring refuses", "required plugin"} {
		if i := strings.Index(msg, lead); i >= 0 {
			return msg[i:]
		}
	}
	return msg
}

// limitsOf reads the memory lock and these cgroup files of a container's first process.
func (d *demo) limitsOf(ctx context.Context, c *cri.Instance, files []cgroupFile) (outcome, error) {
	pid, err := c.Pid(ctx)
	if err != nil {
		return outcome{}, err
	}
	var o outcome
	if o.memlock, err = d.memlockOf(ctx, fmt.Sprint(pid)); err != nil {
		return outcome{}, err
	}
	for _, f := range files {
		read := fmt.Sprintf("cat /sys/fs/cgroup$(sed -n s/^0:://p /proc/%d/cgroup)/%s", pid, f.name)
		content, err := d.node.Output(ctx, "sh", "-c", read)
		if err != nil {
			return outcome{}, err
		}
		o.files = append(o.files, cgroupFile{f.name, content})
	}
	return o, nil
}

// memlockOf is RLIMIT_MEMLOCK of a process of the node, as a quantity.
func (d *demo) memlockOf(ctx context.Context, pid string) (string, error) {
	limit, err := d.node.Output(ctx, "prlimit", "--memlock", "--output=SOFT,HARD", "--noheadings",
		"--raw", "--pid="+pid)
	return limitOf(limit), err
}
