package lifecycle_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle"
)

// scenario is what happens to one launcher, and what has to come of it.
type scenario struct {
	name    string
	terms   lifecycle.Terms
	moments []moment
}

// moment is one step. The launcher is registered at second 1000, from which at
// counts.
type moment struct {
	at   int // seconds
	in   any // a [lifecycle.Input], due or nothingLeft
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
func enforced() lifecycle.Terms {
	return lifecycle.Terms{
		Enforce: true, GracePeriod: 30 * time.Second, TermPeriod: 10 * time.Second, Watchdog: 15 * time.Second,
		StopUnattended: true, StopHung: true,
	}
}

func withTerms(change func(*lifecycle.Terms)) lifecycle.Terms {
	terms := enforced()
	change(&terms)
	return terms
}

func observed() lifecycle.Terms { return withTerms(func(t *lifecycle.Terms) { t.Enforce = false }) }

func reporting() lifecycle.Terms {
	return withTerms(func(t *lifecycle.Terms) { t.StopUnattended, t.StopHung = false, false })
}

func noWatchdog() lifecycle.Terms { return withTerms(func(t *lifecycle.Terms) { t.Watchdog = 0 }) }

func process(pid int) lifecycle.Process {
	return lifecycle.Process{PID: pid, StartTime: uint64(pid) * 100}
}

func podVM(pid int) lifecycle.VM {
	return lifecycle.VM{Process: process(pid), Executable: "qemu-kvm"}
}

func nodeVM(pid int) lifecycle.VM {
	vm := podVM(pid)
	vm.Domain = &lifecycle.Domain{Name: "vm-1", UUID: "c7a5fdbd-edaf-9455-926a-d65c16db1809", PID: pid}
	return vm
}

// What happens in most scenarios.
var (
	ownerStarted = lifecycle.OwnerStarted{Process: process(1)}
	ownerEnded   = lifecycle.OwnerEnded{Proof: "its first process has ended"}
	podStarts    = lifecycle.VMStarted{VM: podVM(7)}
	nodeStarts   = lifecycle.VMStarted{VM: nodeVM(7)}
	vmEnded      = lifecycle.VMEnded{Process: process(7), How: "exit code 0"}
	beaten       = lifecycle.Beaten{}
	stopAsked    = lifecycle.StopAsked{}
	ticked       = lifecycle.Ticked{}
)

func leased(seconds int) lifecycle.Leased {
	return lifecycle.Leased{For: time.Duration(seconds) * time.Second, Reason: "migration"}
}

func podLeased(seconds int) lifecycle.Leased {
	return lifecycle.Leased{For: time.Duration(seconds) * time.Second, Reason: "migration by the pod", Pod: true}
}

const booted = lifecycle.Boottime(1000 * time.Second)

func atSecond(n int) lifecycle.Boottime { return booted.Add(time.Duration(n) * time.Second) }

func newTie(terms lifecycle.Terms) lifecycle.Tie {
	m := lifecycle.Member{
		Pod:       agentapi.PodRef{Namespace: "vms", Name: "launcher", UID: "uid-1"},
		Container: agentapi.ContainerRef{Name: "compute", ID: "id-1"},
	}
	return lifecycle.NewTie(m, terms, booted)
}

func runScenarios(t *testing.T, scenarios []scenario) {
	t.Helper()
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			tie, look := newTie(sc.terms), uint64(0)
			for n, m := range sc.moments {
				now, in := m.input(t, tie, look)
				next, actions := lifecycle.Step(tie, now, in)
				got := []string{showTie(next), showActions(actions)}
				if diff := cmp.Diff([]string{m.then, m.does}, got); diff != "" {
					t.Fatalf("moment %d, %T at %d s (-want +got):\n%s", n, m.in, m.at, diff)
				}
				tie, look = next, lastLook(actions, look)
			}
		})
	}
}

func (m moment) input(t *testing.T, tie lifecycle.Tie, look uint64) (lifecycle.Boottime, lifecycle.Input) {
	t.Helper()
	now := atSecond(m.at)
	switch in := m.in.(type) {
	case lifecycle.Input:
		return now, in
	case nothingLeft:
		return now, lifecycle.Looked{Look: look}
	}
	at, ok := tie.Due()
	if !ok || at != now && at != now+1 { // +1: what has to be exceeded is, by the least
		t.Fatalf("due is %v after registration (%t), want %d s", at.Sub(booted), ok, m.at)
	}
	return at, ticked
}

func lastLook(actions []lifecycle.Action, last uint64) uint64 {
	for _, a := range actions {
		if a, ok := a.(lifecycle.Look); ok {
			last = a.Look
		}
	}
	return last
}

var stageNames = map[lifecycle.Stage]string{
	lifecycle.StageNone: "none", lifecycle.StageShutdown: "shutdown",
	lifecycle.StageTerm: "term", lifecycle.StageKill: "kill",
}

// showTie shows the phase and the VM processes with their stages.
func showTie(tie lifecycle.Tie) string {
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
func showActions(actions []lifecycle.Action) string {
	var words []string
	for _, a := range actions {
		words = append(words, showAction(a))
	}
	return strings.Join(words, " ")
}

func showAction(a lifecycle.Action) string {
	switch a := a.(type) {
	case lifecycle.Tell:
		return string(a.Reason)
	case lifecycle.Shutdown:
		return fmt.Sprintf("shutdown(%d)", a.VM.PID)
	case lifecycle.AskPod:
		return fmt.Sprintf("askPod(%d)", a.VM.PID)
	case lifecycle.Terminate:
		return fmt.Sprintf("terminate(%d)", a.VM.PID)
	case lifecycle.Kill:
		return fmt.Sprintf("kill(%d)", a.VM.PID)
	case lifecycle.CheckMemlock:
		return fmt.Sprintf("checkMemlock(%d)", a.VM.PID)
	case lifecycle.Look:
		return "look"
	case lifecycle.ConfirmStop:
		return "confirmStop"
	}
	return fmt.Sprintf("%T", a)
}

// attended is how a launcher with a VM process of its pod usually begins; before
// gives what happens first.
func attended(starts lifecycle.VMStarted, then ...moment) []moment {
	return slices.Concat([]moment{
		{0, ownerStarted, "Registered", ""},
		{1, beaten, "Registered", ""},
		{2, starts, "Active 7=Running/none", "VMStarted checkMemlock(7)"},
	}, then)
}
