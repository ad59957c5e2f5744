package kubevirtnode

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// observation is the time after a fault in which a VM must not end.
const observation = 20 * time.Second

// fault is a failure below a running VM.
type fault struct {
	name string // a sentence for people
	vm   string // part of the VM's name
	ends bool   // the VM ends with it
	// phase is KubeVirt's phase of a VM that goes on; empty: Running.
	phase kubevirtv1.VirtualMachineInstancePhase
	// reasons of Mooring's Events on the launcher pod.
	reasons []agentapi.Reason
	// inflict causes the fault, and returns the node's time at that moment.
	inflict func(t *testing.T, c *cluster, vmi *kubevirtv1.VirtualMachineInstance) time.Time
	// mend repairs the node after the observation; nil: nothing to repair.
	mend func(t *testing.T, c *cluster)
}

func faults() []fault {
	gone := []agentapi.Reason{agentapi.ReasonVMGone}
	return []fault{
		{name: "virt-launcher-monitor is killed", vm: "monitor", ends: true,
			reasons: []agentapi.Reason{agentapi.ReasonOwnerGone, agentapi.ReasonVMGone},
			inflict: killing((*cluster).monitor)},
		{name: "virt-launcher is killed", vm: "launcher", ends: true, reasons: gone,
			inflict: killing((*cluster).virtLauncher)},
		{name: "QEMU is killed", vm: "qemu", ends: true, reasons: gone,
			inflict: killing((*cluster).qemu)},
		{name: "virtqemud is killed", vm: "virtqemud", inflict: killing((*cluster).virtqemud)},
		{name: "virt-handler is killed", vm: "handler", inflict: killing((*cluster).virtHandler)},
		{name: "containerd is restarted", vm: "containerd", inflict: restartContainerd},
		{name: "the pod is deleted by force", vm: "forced", ends: true, reasons: gone,
			inflict: deleteByForce},
		{name: "the pod is deleted by force without kubelet", vm: "kubelet",
			phase: kubevirtv1.Failed, inflict: deleteWithoutKubelet, mend: startKubelet},
	}
}

// killing kills the process that find returns.
func killing(
	find func(*cluster, *testing.T, *kubevirtv1.VirtualMachineInstance) string,
) func(*testing.T, *cluster, *kubevirtv1.VirtualMachineInstance) time.Time {
	return func(
		t *testing.T, c *cluster, vmi *kubevirtv1.VirtualMachineInstance,
	) time.Time {
		return c.timed(t, `kill -KILL "$1"`, find(c, t, vmi))
	}
}

func restartContainerd(
	t *testing.T, c *cluster, _ *kubevirtv1.VirtualMachineInstance,
) time.Time {
	return c.timed(t, "systemctl restart containerd")
}

// deleteByForce deletes the launcher pod with a grace period of 0, as after a node failure.
func deleteByForce(
	t *testing.T, c *cluster, vmi *kubevirtv1.VirtualMachineInstance,
) time.Time {
	at := c.timed(t, "true")
	if err := c.Delete(t.Context(), c.launcher(t, vmi),
		client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	return at
}

func deleteWithoutKubelet(
	t *testing.T, c *cluster, vmi *kubevirtv1.VirtualMachineInstance,
) time.Time {
	c.onNode(t, "systemctl", "stop", "kubelet")
	return deleteByForce(t, c, vmi)
}

func startKubelet(t *testing.T, c *cluster) {
	ctx := context.WithoutCancel(t.Context()) // the test has ended
	if _, err := c.node.Output(ctx, "systemctl", "start", "kubelet"); err != nil {
		t.Error(err)
	}
}

// timed runs a shell command on the node, and returns the node's time before the command.
func (c *cluster) timed(t *testing.T, command string, args ...string) time.Time {
	t.Helper()
	script := "date --rfc-3339=ns; " + command
	out := c.onNode(t, append([]string{"sh", "-c", script, "sh"}, args...)...)
	at, err := parseNodeTime(out)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func parseNodeTime(text string) (time.Time, error) {
	return time.Parse("2006-01-02 15:04:05.999999999-07:00", text)
}

// outcome is the effect of a fault. Durations start with the fault.
type outcome struct {
	at   time.Time     // of the fault, by the node's clock
	qemu time.Duration // end of QEMU; 0: it goes on
	vmi  time.Duration // until KubeVirt reports the VM's end

	// phase is the VM's phase in KubeVirt after the observation.
	phase kubevirtv1.VirtualMachineInstancePhase
}

// String is a cell of a table.
func (o outcome) String() string {
	switch {
	case o.qemu == 0 && o.phase == kubevirtv1.Running:
		return "VM goes on"
	case o.qemu == 0:
		return fmt.Sprintf("VM goes on, KubeVirt reports phase %s", o.phase)
	}
	return fmt.Sprintf("VM ends after %.2f s, KubeVirt reports it after %.0f s", o.qemu.Seconds(),
		o.vmi.Seconds())
}

// observe inflicts a fault on a VM and observes the effect.
func (c *cluster) observe(
	t *testing.T, f fault, vmi *kubevirtv1.VirtualMachineInstance,
) outcome {
	t.Helper()
	qemu := c.qemu(t, vmi)
	ended := c.watchEnd(t, qemu)
	if f.mend != nil {
		t.Cleanup(func() { f.mend(t, c) }) // before the VM's removal
	}
	o, start := outcome{at: f.inflict(t, c, vmi)}, time.Now()
	if !f.ends {
		select {
		case <-ended:
			t.Error("QEMU has ended")
		case <-time.After(observation):
		}
		if now := c.qemu(t, vmi); now != qemu {
			t.Errorf("QEMU was process %s and is process %s", qemu, now)
		}
		c.awaitPhase(t, vmi, cmp.Or(f.phase, kubevirtv1.Running))
		o.phase = vmi.Status.Phase
		return o
	}
	select {
	case at := <-ended:
		o.qemu = at.Sub(o.at)
	case <-time.After(patience):
		t.Fatal("QEMU goes on")
	}
	eventually(t, "KubeVirt to report the VM's end", func(ctx context.Context) error {
		now := &kubevirtv1.VirtualMachineInstance{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(vmi), now); err != nil {
			return err
		}
		if !now.IsFinal() {
			return fmt.Errorf("phase %s", now.Status.Phase)
		}
		return nil
	})
	o.vmi = time.Since(start)
	return o
}

// watchEnd sends the node's time at the end of a process of the node.
func (c *cluster) watchEnd(t *testing.T, pid string) <-chan time.Time {
	ctx, ended := t.Context(), make(chan time.Time, 1)
	go func() {
		out, err := c.node.Output(ctx, "sh", "-c", `while [ -d "/proc/$1" ]; do sleep 0.02; done
			date --rfc-3339=ns`, "sh", pid)
		if err != nil {
			return // the test has ended, or fails by its deadline
		}
		if at, err := parseNodeTime(strings.TrimSpace(out)); err == nil {
			ended <- at
		}
	}()
	return ended
}

// alone are the outcomes of KubeVirt alone by the names of the faults.
var alone = map[string]outcome{}

// TestFaults inflicts each fault on a VM with Mooring, and logs the rows of the table in
// docs/explanation/kubevirt-faults.md.
func TestFaults(t *testing.T) {
	c := start(t)
	c.requireMooring(t)
	for _, f := range faults() {
		t.Run(f.vm, func(t *testing.T) {
			vmi := newVMI("tied-"+f.vm, nil)
			c.run(t, vmi)
			pod := c.tied(t, vmi).Pod.Name
			o := c.observe(t, f, vmi)
			for _, reason := range f.reasons {
				c.awaitEvent(t, pod, string(reason))
			}
			events := c.eventsSince(t, pod, o.at)
			if !f.ends && events != noEvent {
				t.Errorf("Mooring reports %s about a VM that goes on", events)
			}
			before := "not measured"
			if o, ok := alone[f.name]; ok {
				before = o.String()
			}
			t.Logf("| %s | %s | %s; %s |", f.name, before, o, events)
		})
	}
}

const noEvent = "no Event"

// eventsSince lists Mooring's Events on a pod since a time of the node's clock.
func (c *cluster) eventsSince(t *testing.T, pod string, since time.Time) string {
	t.Helper()
	list := &corev1.EventList{}
	if err := c.List(t.Context(), list, client.InNamespace(namespace),
		client.MatchingFields{"involvedObject.name": pod}); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range list.Items {
		after := e.EventTime.Sub(since)
		if e.ReportingController == agentapi.AgentReporter && after >= 0 {
			all = append(all, fmt.Sprintf("%s after %.2f s", e.Reason, after.Seconds()))
		}
	}
	if all == nil {
		return noEvent
	}
	return strings.Join(all, ", ")
}
