package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
	"github.com/mooring-vm/mooring/integration/node"
)

// domainName is that of the domain of the node's libvirt that a pod declares.
func domainName(number int) string { return "demo-" + podName(number) }

// domainXML is a VM without a disk: QEMU with firmware that waits.
//
//go:embed domain.xml
var domainXML string

// vmScenario is a launcher pod with a VM in the node's libvirt, and how it ends.
type vmScenario struct {
	title string
	// end ends the VM in its way, and says what was done.
	end func(context.Context, *demo, *cri.Instance) (string, error)
}

func vmScenarios() []vmScenario {
	return []vmScenario{
		{"VM of the node's libvirt; its pod ends in good order (preStop)", askForStop},
		{"VM of the node's libvirt; its launcher is killed", killLauncher},
	}
}

// askForStop is what kubelet runs as the container's preStop hook. The firmware does
// not know what to do with a power button, so the grace period runs out.
func askForStop(ctx context.Context, _ *demo, launcher *cri.Instance) (string, error) {
	if _, err := launcher.Exec(ctx, "/run/mooring/hook", "prestop"); err != nil {
		return "", err
	}
	return "/run/mooring/hook prestop waited, and returned", nil
}

func killLauncher(ctx context.Context, d *demo, launcher *cri.Instance) (string, error) {
	pid, err := launcher.Pid(ctx)
	if err != nil {
		return "", err
	}
	_, err = d.node.Output(ctx, "kill", "-9", fmt.Sprint(pid))
	return "kill -9 of the launcher's first process", err
}

func (d *demo) playVMs(ctx context.Context, first int) error {
	for i, s := range vmScenarios() {
		say("pod %d: %s", first+i, s.title)
		if err := d.playVM(ctx, first+i, s); err != nil {
			return err
		}
	}
	return nil
}

// playVM starts a launcher and its VM, and looks what the end of the one does to the
// other.
func (d *demo) playVM(ctx context.Context, number int, s vmScenario) error {
	annotations := map[string]string{api.DomainKey: domainName(number), api.GracePeriodKey: "2s"}
	launcher, err := d.launchVM(ctx, number, annotations)
	if err != nil {
		return err
	}
	pid, err := d.createDomain(ctx, domainName(number))
	if err != nil {
		return err
	}
	r := row{number: number, title: s.title, asked: asked(scenario{annotations: annotations})}
	bound, err := d.await(ctx, func() (bool, error) { return d.follows(ctx, number, pid) })
	if err != nil {
		return err
	}
	r.see(bound, "QEMU runs outside of the pod, and is known as its VM", "the VM is not bound to its pod")
	did, err := s.end(ctx, d, launcher)
	if err != nil {
		return err
	}
	ended, err := d.await(ctx, func() (bool, error) { return d.isGone(ctx, pid) })
	if err != nil {
		return err
	}
	r.shown = append(r.shown, did)
	r.see(ended, "QEMU has ended", "QEMU outlives its pod")
	d.table.add(r)
	return nil
}

// see notes what was seen, or that it should have been.
func (r *row) see(ok bool, shown, wrong string) {
	if ok {
		r.shown = append(r.shown, shown)
	} else {
		r.wrong = append(r.wrong, wrong)
	}
}

func (d *demo) launchVM(ctx context.Context, number int, annotations map[string]string) (*cri.Instance, error) {
	pod := cri.Pod{
		Namespace: "vms", Name: podName(number), UID: fmt.Sprintf("00000000-0000-4000-8000-%012d", number),
		Annotations: annotations, Labels: label(),
	}
	pod.Labels["kubevirt.io"] = "virt-launcher"
	sandbox, err := d.cri.RunPod(ctx, pod)
	if err != nil {
		return nil, err
	}
	return sandbox.Run(ctx, cri.Container{Name: "compute", MemoryLimit: gib})
}

// createDomain has the node's libvirt start the VM, and returns QEMU's pid.
func (d *demo) createDomain(ctx context.Context, name string) (pid string, err error) {
	var said bytes.Buffer
	create := node.Command{
		Args:  []string{"virsh", "--quiet", "create", "/dev/stdin"},
		Stdin: strings.NewReader(fmt.Sprintf(domainXML, name)), Stdout: io.Discard, Stderr: &said,
	}
	if err := d.node.Run(ctx, create); err != nil {
		return "", fmt.Errorf("virsh create: %w: %s", err, &said)
	}
	return d.node.Output(ctx, "cat", "/run/libvirt/qemu/"+name+".pid")
}

// follows reports whether the agent knows the process as the pod's VM.
func (d *demo) follows(ctx context.Context, number int, pid string) (bool, error) {
	launchers, err := d.agent.Launchers(ctx, "vms", podName(number))
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
	out, err := d.node.Output(ctx, "sh", "-c", "grep -q qemu /proc/$0/cmdline && echo there || echo gone", pid)
	return out == "gone", err
}

// await waits a while for something to be so.
func (d *demo) await(ctx context.Context, is func() (bool, error)) (bool, error) {
	enough, look := time.After(30*time.Second), time.NewTicker(200*time.Millisecond)
	defer look.Stop()
	for {
		if ok, err := is(); ok || err != nil {
			return ok, err
		}
		select {
		case <-look.C:
		case <-enough:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
