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

// vmCell names the launcher's VM process and its state; of several, their number
// and the states that there are.
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

// heartbeatCell is how old the last heartbeat is, and empty where none is expected.
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

// leaseCell is how long the lease will hold.
func leaseCell(l *agentapi.Lease, now time.Time) string {
	if l == nil {
		return ""
	}
	return duration.HumanDuration(max(l.Until.Sub(now), 0))
}

// lifeRows tell of the launcher and its VM processes, and nothing where they are
// not followed.
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
		rows = append(rows, []string{"Lease:", withReason("for another "+leaseCell(l.Lease, now), l.Lease.Reason)})
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
		rows = append(rows, []string{strconv.Itoa(vm.PID), vm.Executable, vm.Domain, string(vm.State), since, vm.Why})
	}
	return rows
}

// trackerText says whether the kernel tells of processes.
func trackerText(t agentapi.Tracker) string {
	if !t.Available {
		return withReason("none", cmp.Or(t.Error, "VM processes are not followed"))
	}
	text := fmt.Sprintf("follows %d processes of at most %d, in %d cgroups of at most %d", t.Processes, t.MaxProcesses, t.Groups, t.MaxGroups)
	if t.LostEvents > 0 {
		text += fmt.Sprintf("; events lost: %d", t.LostEvents)
	}
	if t.LostProcesses > 0 {
		text += fmt.Sprintf("; processes that it had no room for: %d", t.LostProcesses)
	}
	if t.Skipped > 0 {
		text += fmt.Sprintf("; calls that the kernel left out: %d", t.Skipped)
	}
	return text
}
