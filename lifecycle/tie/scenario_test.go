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

// scenario is what happens to one launcher, and what has to come of it.
type scenario struct {
	name    string
	terms   tie.Terms
	moments []moment
}

// moment is one step. The launcher is registered at second 1000, from which at
// counts.
type moment struct {
	at   int // seconds
	in   any // a [Input], due or nothingLeft
	then string
	does string
}

// due stands for a tick at the very moment that the tie has asked for, nothingLeft
// for the outcome of the look that was asked for last.
type (
	due         struct{}
	nothingLeft struct{}
)

// enforced are terms under which everything is stopped that may be.
func enforced() tie.Terms {
	return tie.Terms{
		Enforce: true, GracePeriod: 30 * time.Second, TermPeriod: 10 * time.Second, Watchdog: 15 * time.Second,
		StopUnattended: true, StopHung: true,
	}
}

func withTerms(change func(*tie.Terms)) tie.Terms {
	terms := enforced()
	change(&terms)
	return terms
}

func observed() tie.Terms { return withTerms(func(t *tie.Terms) { t.Enforce = false }) }

func reporting() tie.Terms {
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

// What happens in most scenarios.
var (
	ownerStarted = tie.LauncherStarted{Process: process(1)}
	ownerEnded   = tie.LauncherEnded{Proof: "its first process has ended"}
	podStarts    = tie.VMStarted{VM: podVM(7)}
	nodeStarts   = tie.VMStarted{VM: nodeVM(7)}
	vmEnded      = tie.VMEnded{Process: process(7), How: "exit code 0"}
	beaten       = tie.HeartbeatSeen{}
	stopAsked    = tie.StopRequested{}
	ticked       = tie.TimePassed{}
)

func leased(seconds int) tie.LeaseSet {
	return tie.LeaseSet{Period: time.Duration(seconds) * time.Second, Reason: "migration"}
}

func podLeased(seconds int) tie.LeaseSet {
	return tie.LeaseSet{Period: time.Duration(seconds) * time.Second, Reason: "migration by the pod", ByPod: true}
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
			current, look := newTie(sc.terms), uint64(0)
			for n, m := range sc.moments {
				now, in := m.input(t, current, look)
				next, actions := tie.Step(current, now, in)
				got := []string{showTie(next), showActions(actions)}
				if diff := cmp.Diff([]string{m.then, m.does}, got); diff != "" {
					t.Fatalf("moment %d, %T at %d s (-want +got):\n%s", n, m.in, m.at, diff)
				}
				current, look = next, lastLook(actions, look)
			}
		})
	}
}

func (m moment) input(t *testing.T, current tie.Tie, look uint64) (host.Boottime, tie.Input) {
	t.Helper()
	now := atSecond(m.at)
	switch in := m.in.(type) {
	case tie.Input:
		return now, in
	case nothingLeft:
		return now, tie.Scanned{ID: look}
	}
	at, ok := current.Due()
	if !ok || at != now && at != now+1 { // +1: what has to be exceeded is, by the least
		t.Fatalf("due is %v after registration (%t), want %d s", at.Sub(booted), ok, m.at)
	}
	return at, ticked
}

func lastLook(actions []tie.Action, last uint64) uint64 {
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

// showActions shows what is done, and of what is told the reasons.
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
		return fmt.Sprintf("shutdown(%d)", a.VM.PID)
	case tie.ShutdownByPod:
		return fmt.Sprintf("askPod(%d)", a.VM.PID)
	case tie.Terminate:
		return fmt.Sprintf("terminate(%d)", a.VM.PID)
	case tie.Kill:
		return fmt.Sprintf("kill(%d)", a.VM.PID)
	case tie.CheckMemlock:
		return fmt.Sprintf("checkMemlock(%d)", a.VM.PID)
	case tie.RequestScan:
		return "look"
	case tie.ConfirmStop:
		return "confirmStop"
	}
	return fmt.Sprintf("%T", a)
}

// attended is how a launcher with a VM process of its pod usually begins; before
// gives what happens first.
func attended(starts tie.VMStarted, then ...moment) []moment {
	return slices.Concat([]moment{
		{0, ownerStarted, "Registered", ""},
		{1, beaten, "Registered", ""},
		{2, starts, "Active 7=Running/none", "VMStarted checkMemlock(7)"},
	}, then)
}
