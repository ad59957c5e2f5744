package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// vmCell formats the launcher's VM process with its state, or the number of processes with their
// states.
func vmCell(vms []agentapi.VM) string {
	switch len(vms) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%d %s", vms[0].PID, vms[0].State)
	}
	var states []string
	for _, vm := range vms {
		states = append(states, string(vm.State))
	}
	slices.Sort(states)
	return fmt.Sprintf("%d: %s", len(vms), strings.Join(slices.Compact(states), ", "))
}

// heartbeatCell formats the age of the last heartbeat; empty if none is expected.
func heartbeatCell(h *agentapi.Heartbeat) string {
	switch {
	case h == nil:
		return ""
	case h.Expired:
		return "expired"
	case h.Age == nil:
		return "none yet"
	}
	return duration.HumanDuration(seconds(*h.Age))
}

// leaseCell formats the remaining time of the lease.
func leaseCell(l *agentapi.Lease, now time.Time) string {
	if l == nil {
		return ""
	}
	return duration.HumanDuration(max(l.Until.Sub(now), 0))
}

// lifeRows describe the launcher's phase and its VM processes. They are empty without a tie.
func lifeRows(l agentapi.Launcher, now time.Time) [][]string {
	if l.Phase == "" {
		return nil
	}
	phase := string(l.Phase)
	if since := age(l.PhaseSince, now); since != "" {
		phase += " for " + since
	}
	rows := [][]string{{"Phase:", withReason(phase, l.Why)}}
	if l.Heartbeat != nil {
		rows = append(rows, []string{"Heartbeat:", heartbeatText(*l.Heartbeat)})
	}
	if l.Lease != nil {
		rows = append(rows,
			[]string{"Lease:", withReason("for another "+leaseCell(l.Lease, now), l.Lease.Reason)})
	}
	return rows
}

func withReason(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

func heartbeatText(h agentapi.Heartbeat) string {
	text := "none yet"
	if h.Age != nil {
		text = duration.HumanDuration(seconds(*h.Age)) + " ago"
	}
	if h.Expired {
		text = "expired: " + text
	}
	return fmt.Sprintf("%s, watchdog %s", text, seconds(h.Watchdog))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func vmRows(vms []agentapi.VM, now time.Time) [][]string {
	rows := [][]string{{"PID", "EXECUTABLE", "DOMAIN", "STATE", "SINCE", "WHY"}}
	for _, vm := range vms {
		since := ""
		if age := age(vm.Since, now); age != "" {
			since = age + " ago"
		}
		rows = append(rows, []string{strconv.Itoa(vm.PID), vm.Executable, vm.Domain,
			string(vm.State), since, vm.Why})
	}
	return rows
}

// trackerText describes the state of the tracker.
func trackerText(t agentapi.Tracker) string {
	if !t.Available {
		return withReason("none", cmp.Or(t.Error, "VM processes are not tracked"))
	}
	text := fmt.Sprintf("tracks %d of at most %d processes, in %d of at most %d cgroups",
		t.Processes, t.MaxProcesses, t.Groups, t.MaxGroups)
	if t.LostEvents > 0 {
		text += fmt.Sprintf("; events lost: %d", t.LostEvents)
	}
	if t.LostProcesses > 0 {
		text += fmt.Sprintf("; processes without room: %d", t.LostProcesses)
	}
	if t.Skipped > 0 {
		text += fmt.Sprintf("; handler calls skipped by the kernel: %d", t.Skipped)
	}
	return text
}
