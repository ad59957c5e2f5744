package cli

import (
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// withVMs returns launchers with tracked VM processes.
func withVMs() []agentapi.Launcher {
	return []agentapi.Launcher{attended(), withoutVM(), draining(), observedOrphan(), hostileVM(),
		vfio("vms")}
}

func process(pid int, state agentapi.VMState, age time.Duration, why string) agentapi.VM {
	return agentapi.VM{
		PID: pid, StartTime: uint64(pid) * 100, Executable: "qemu-system-x86_64", State: state,
		Since: now.Add(-age), Why: why,
	}
}

func heartbeat(age float64, watchdog float64) *agentapi.Heartbeat {
	return &agentapi.Heartbeat{Watchdog: watchdog, Age: &age, Expired: age > watchdog}
}

func attended() agentapi.Launcher {
	l := running("vms", "virt-launcher-db-x7k2p", 3*time.Hour, vfio("vms").Settings...)
	l.Phase, l.Why = agentapi.PhaseActive, "a VM process runs"
	l.VMs = []agentapi.VM{process(4741, agentapi.VMRunning, 3*time.Hour, "started")}
	l.Heartbeat = heartbeat(3.2, 90)
	return l
}

// withoutVM has not started its VM or given a heartbeat.
func withoutVM() agentapi.Launcher {
	l := running("vms", "virt-launcher-new-8dd4f", 2*time.Second)
	l.Phase = agentapi.PhaseRegistered
	l.Heartbeat = &agentapi.Heartbeat{Watchdog: 30}
	return l
}

// draining has one VM process in the pod and one in the node's libvirt.
func draining() agentapi.Launcher {
	l := running("vms", "virt-launcher-web-q9z1c", 26*time.Hour)
	l.Phase, l.PhaseSince, l.Why = agentapi.PhaseDraining, now.Add(-15*time.Second),
		"the pod asks for it"
	l.VMs = []agentapi.VM{
		process(5120, agentapi.VMKilling, 4*time.Second, "the pod asks for it"),
		process(5133, agentapi.VMStopping, 14*time.Second, "the pod asks for it"),
	}
	l.VMs[1].Domain = "vm-web"
	l.Heartbeat = heartbeat(95, 30)
	return l
}

// observedOrphan has VM processes after the end of the launcher, in observe mode, and a lease.
func observedOrphan() agentapi.Launcher {
	l := running("lab", "orphan", time.Hour)
	l.State, l.Mode = agentapi.StateStopped, "observe"
	l.Phase, l.Why = agentapi.PhaseActive, "the launcher is gone: its first process has ended; "+
		"held back by a lease for migration"
	l.VMs = []agentapi.VM{process(6001, agentapi.VMRunning, time.Hour, ""),
		process(6002, agentapi.VMRunning, time.Minute, "")}
	l.Lease = &agentapi.Lease{Reason: "migration", Until: now.Add(4 * time.Minute)}
	return l
}

// hostileVM has control characters in all texts that a pod or the manager of a VM can choose.
func hostileVM() agentapi.Launcher {
	l := running("vms", "hostile-vm", time.Second)
	l.Phase, l.Why = agentapi.PhaseActive, "line one\nPhase:  \x1b[2JDone"
	l.VMs = []agentapi.VM{process(666, "Run\tning", time.Second, "because\nit\x9b31m is")}
	l.VMs[0].Executable, l.VMs[0].Domain = "qemu-\x1b]0;owned\a", "vm\n1  Running"
	l.Lease = &agentapi.Lease{Reason: "\u202enoitargim", Until: now.Add(-time.Second)}
	return l
}
