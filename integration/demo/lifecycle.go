package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
	"github.com/mooring-vm/mooring/integration/node"
)

// firmwareXML is a VM of 64Mi without a disk. Its guest is the idle firmware.
//
//go:embed firmware.xml
var firmwareXML string

// ending is a way in which a pod ends.
type ending struct {
	title string
	// end ends the pod and returns a description of what happened to it.
	end func(context.Context, *demo, *cri.Instance) (string, error)
}

func endings() []ending {
	return []ending{
		{"the pod is deleted: its preStop hook ends the VM and waits", runPreStop},
		{"the launcher is killed", killLauncher},
	}
}

// runPreStop runs the container's preStop hook, as kubelet does. The firmware ignores the power
// button, so the grace period passes.
func runPreStop(ctx context.Context, _ *demo, launcher *cri.Instance) (string, error) {
	if _, err := launcher.Exec(ctx, "/run/mooring/hook", "prestop"); err != nil {
		return "", err
	}
	return "/run/mooring/hook prestop returned", nil
}

func killLauncher(ctx context.Context, d *demo, launcher *cri.Instance) (string, error) {
	pid, err := launcher.Pid(ctx)
	if err != nil {
		return "", err
	}
	_, err = d.node.Output(ctx, "kill", "-9", fmt.Sprint(pid))
	return "kill -9 of the launcher's first process", err
}

// firstEnding is the number of the first pod of this part.
const firstEnding = 9

func (d *demo) showLifecycle(ctx context.Context) error {
	for i, e := range endings() {
		if err := d.showEnding(ctx, firstEnding+i, e); err != nil {
			return err
		}
	}
	return nil
}

// showEnding starts a launcher and its VM, ends the pod, and checks that the VM ends, too.
func (d *demo) showEnding(ctx context.Context, number int, e ending) error {
	d.screen.step(podName(number) + ", " + e.title)
	domain := "demo-" + podName(number)
	annotations := map[string]string{api.DomainKey: domain, api.GracePeriodKey: "2s"}
	d.showAnnotations(annotations)
	var launcher *cri.Instance
	var pid string
	err := d.screen.during("starting the pod and its VM", func() (err error) {
		if launcher, err = d.runLauncher(ctx, number, annotations); err == nil {
			pid, err = d.createDomain(ctx, domain)
		}
		return err
	})
	if err != nil {
		return err
	}
	tied, err := d.await(ctx, "the agent to find the VM",
		func() (bool, error) { return d.isTied(ctx, number, pid) })
	if err != nil {
		return err
	}
	d.check(tied, "QEMU runs outside of the pod, and the agent ties it to the pod",
		"the agent does not tie the VM to its pod")
	var happened string
	if err := d.screen.during("ending the pod", func() (err error) {
		happened, err = e.end(ctx, d, launcher)
		return err
	}); err != nil {
		return err
	}
	gone, err := d.await(ctx, "QEMU to end", func() (bool, error) { return d.isGone(ctx, pid) })
	if err != nil {
		return err
	}
	d.check(gone, happened+", and QEMU has ended", happened+", and QEMU still runs")
	return nil
}

// runLauncher runs a launcher pod.
func (d *demo) runLauncher(
	ctx context.Context, number int, annotations map[string]string,
) (*cri.Instance, error) {
	sandbox, err := d.cri.RunPod(ctx, pod(number, annotations, false))
	if err != nil {
		return nil, err
	}
	return sandbox.Run(ctx, cri.Container{Name: "compute", MemoryLimit: gib})
}

// createDomain starts a VM with the node's libvirt, and returns QEMU's pid.
func (d *demo) createDomain(ctx context.Context, name string) (pid string, err error) {
	var stderr bytes.Buffer
	create := node.Command{
		Args:  []string{"virsh", "--quiet", "create", "/dev/stdin"},
		Stdin: strings.NewReader(fmt.Sprintf(firmwareXML, name)), Stdout: io.Discard,
		Stderr: &stderr,
	}
	if err := d.node.Run(ctx, create); err != nil {
		return "", fmt.Errorf("virsh create: %w: %s", err, &stderr)
	}
	return d.node.Output(ctx, "cat", "/run/libvirt/qemu/"+name+".pid")
}

// isTied reports whether the agent knows the process as a running VM of the pod.
func (d *demo) isTied(ctx context.Context, number int, pid string) (bool, error) {
	launchers, err := d.agent.Launchers(ctx, namespace, podName(number))
	for _, l := range launchers {
		for _, vm := range l.VMs {
			if fmt.Sprint(vm.PID) == pid && vm.State == agentapi.VMRunning {
				return true, nil
			}
		}
	}
	return false, err
}

func (d *demo) isGone(ctx context.Context, pid string) (bool, error) {
	out, err := d.node.Output(ctx, "sh", "-c", "grep -q qemu /proc/$0/cmdline && echo running || "+
		"echo gone", pid)
	return out == "gone", err
}
