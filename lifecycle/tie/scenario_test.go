package tie_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// scenario is a sequence of events of one launcher with the expected results.
type scenario struct {
	name   string
	terms  tie.Terms
	events []event
}

// event is one step. The supervisor registers the launcher at second 1000, and at counts from
// there.
type event struct {
	at      int // seconds
	in      any // a [tie.Input], due or nothingFound
	state   string
	actions string
}

// due lets time pass until the tie's due time. nothingFound is an empty result of the last
// requested scan.
type (
	due          struct{}
	nothingFound struct{}
)

// enforceTerms stop a VM for every reason.
func enforceTerms() tie.Terms {
	return tie.Terms{
		Enforce: true, GracePeriod: 30 * time.Second, TermPeriod: 10 * time.Second,
		Watchdog:       15 * time.Second,
		StopUnattended: true, StopHung: true,
	}
}

func withTerms(change func(*tie.Terms)) tie.Terms {
	terms := enforceTerms()
	change(&terms)
	return terms
}

func observeTerms() tie.Terms { return withTerms(func(t *tie.Terms) { t.Enforce = false }) }

func reportTerms() tie.Terms {
	return withTerms(func(t *tie.Terms) { t.StopUnattended, t.StopHung = false, false })
}

func noWatchdog() tie.Terms { return withTerms(func(t *tie.Terms) { t.Watchdog = 0 }) }

func process(pid int) host.Process {
	return host.Process{PID: pid, StartTime: uint64(pid) * 100}
}

func podVM(pid int) tie.VM {
	return tie.VM{Process: process(pid), Executable: "qemu-kvm"}
}

func nodeVM(pid int) tie.VM {
	vm := podVM(pid)
	vm.Domain = &tie.Domain{Name: "vm-1", UUID: "c7a5fdbd-edaf-9455-926a-d65c16db1809", PID: pid}
	return vm
}

// Frequent events.
var (
	launcherStarted = tie.LauncherStarted{Process: process(1)}
	launcherEnded   = tie.LauncherEnded{Proof: "its first process has ended"}
	podStarts       = tie.VMStarted{VM: podVM(7)}
	nodeStarts      = tie.VMStarted{VM: nodeVM(7)}
	vmEnded         = tie.VMEnded{Process: process(7), How: "exit code 0"}
	heartbeat       = tie.HeartbeatSeen{}
	stopRequested   = tie.StopRequested{}
	timePassed      = tie.TimePassed{}
)

func lease(seconds int) tie.LeaseSet {
	return tie.LeaseSet{Period: time.Duration(seconds) * time.Second, Reason: "migration"}
}

func podLease(seconds int) tie.LeaseSet {
	return tie.LeaseSet{Period: time.Duration(seconds) * time.Second,
		Reason: "migration by the pod", ByPod: true}
}

const booted = host.Boottime(1000 * time.Second)

func atSecond(n int) host.Boottime { return booted.Add(time.Duration(n) * time.Second) }

func newTie(terms tie.Terms) tie.Tie {
	m := tie.Launcher{
		Pod:       agentapi.PodRef{Namespace: "vms", Name: "launcher", UID: "uid-1"},
		Container: agentapi.ContainerRef{Name: "compute", ID: "id-1"},
	}
	return tie.New(m, terms, booted)
}

func runScenarios(t *testing.T, scenarios []scenario) {
	t.Helper()
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			current, scan := newTie(sc.terms), uint64(0)
			for n, m := range sc.events {
				now, in := m.input(t, current, scan)
				next, actions := tie.Step(current, now, in)
				got := []string{showTie(next), showActions(actions)}
				if diff := cmp.Diff([]string{m.state, m.actions}, got); diff != "" {
					t.Fatalf("event %d, %T at %d s (-want +got):\n%s", n, m.in, m.at, diff)
				}
				current, scan = next, lastScan(actions, scan)
			}
		})
	}
}

func (m event) input(t *testing.T, current tie.Tie, scan uint64) (host.Boottime, tie.Input) {
	t.Helper()
	now := atSecond(m.at)
	switch in := m.in.(type) {
	case tie.Input:
		return now, in
	case nothingFound:
		return now, tie.Scanned{ID: scan}
	}
	at, ok := current.Due()
	if !ok || at != now && at != now+1 { // +1: a heartbeat expires when its age exceeds the bound
		t.Fatalf("due is %v after registration (%t), want %d s", at.Sub(booted), ok, m.at)
	}
	return at, timePassed
}

func lastScan(actions []tie.Action, last uint64) uint64 {
	for _, a := range actions {
		if a, ok := a.(tie.RequestScan); ok {
			last = a.ID
		}
	}
	return last
}

var stageNames = map[tie.Stage]string{
	tie.StageNone: "none", tie.StageShutdown: "shutdown",
	tie.StageTerm: "term", tie.StageKill: "kill",
}

// showTie shows the phase and the VM processes with their stages.
func showTie(tie tie.Tie) string {
	words := []string{string(tie.Phase)}
	for _, v := range tie.VMs {
		words = append(words, fmt.Sprintf("%d=%s/%s", v.PID, v.State, stageNames[v.Stage]))
	}
	if tie.Over() {
		words = append(words, "over")
	}
	return strings.Join(words, " ")
}

// showActions returns the actions, and the reasons of Events.
func showActions(actions []tie.Action) string {
	var words []string
	for _, a := range actions {
		words = append(words, showAction(a))
	}
	return strings.Join(words, " ")
}

func showAction(a tie.Action) string {
	switch a := a.(type) {
	case tie.Report:
		return string(a.Reason)
	case tie.ShutdownByLibvirt:
		return fmt.Sprintf("libvirtShutdown(%d)", a.VM.PID)
	case tie.ShutdownByPod:
		return fmt.Sprintf("podShutdown(%d)", a.VM.PID)
	case tie.Terminate:
		return fmt.Sprintf("terminate(%d)", a.VM.PID)
	case tie.Kill:
		return fmt.Sprintf("kill(%d)", a.VM.PID)
	case tie.CheckMemlock:
		return fmt.Sprintf("checkMemlock(%d)", a.VM.PID)
	case tie.ExplainEnd:
		return fmt.Sprintf("explainEnd(%d)", a.End.PID)
	case tie.RequestScan:
		return "scan"
	case tie.ConfirmStop:
		return "confirmStop"
	}
	return fmt.Sprintf("%T", a)
}

// withVM begins with the start of a launcher, a heartbeat and a VM process.
func withVM(starts tie.VMStarted, then ...event) []event {
	return slices.Concat([]event{
		{0, launcherStarted, "Registered", ""},
		{1, heartbeat, "Registered", ""},
		{2, starts, "Active 7=Running/none", "VMStarted checkMemlock(7)"},
	}, then)
}
