package decide

import (
	"fmt"
	"strings"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/memlock"
)

// Refusal says why a request fails. kubelet shows the text to the pod's author: one line with the
// annotation, its value, the limit, the rule and a remedy.
type Refusal struct {
	Reason  agentapi.Reason // of the first fault
	Message string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

// maxFaults is the number of faults in one refusal. The text must fit into an Event.
const maxFaults = 10

// fault is one reason to refuse a container.
type fault struct {
	reason agentapi.Reason
	text   string
}

func (d *decider) refuse(reason agentapi.Reason, format string, args ...any) {
	d.faults = append(d.faults, fault{reason, fmt.Sprintf(format, args...)})
}

// refusal joins the faults. nil: there are none.
func (d *decider) refusal() *Refusal {
	if len(d.faults) == 0 {
		return nil
	}
	var texts []string
	for _, f := range d.faults[:min(len(d.faults), maxFaults)] {
		texts = append(texts, f.text)
	}
	if more := len(d.faults) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return &Refusal{
		Reason: d.faults[0].reason,
		Message: fmt.Sprintf("mooring refuses container %q of pod %s/%s: %s", d.facts.Container,
			d.facts.Pod.Namespace, d.facts.Pod.Name, strings.Join(texts, "; also: ")),
	}
}

// requested lists the requested settings and their annotations.
func (d *decider) requested(lock memlock.Result, request api.Request) string {
	var all []string
	if lock.Required {
		all = append(all, d.requestedLock(lock))
	}
	for _, s := range request.Cgroup {
		all = append(all, "annotation "+d.written(s.File+api.CgroupSuffix))
	}
	if request.Domain != "" {
		all = append(all, "annotation "+d.written(api.DomainKey))
	}
	return strings.Join(all, ", ")
}

// requestedLock names the lock, its terms and its annotations.
func (d *decider) requestedLock(lock memlock.Result) string {
	size := "a memory lock of " + limitOf(lock).String()
	if limitOf(lock) == host.Unlimited {
		size = "an unlimited memory lock"
	}
	return fmt.Sprintf("%s ask for %s%s", d.lockAnnotations(), size, sumOf(lock))
}

// sumOf writes the terms of a sum. One term alone is no sum.
func sumOf(lock memlock.Result) string {
	if len(lock.Terms) < 2 {
		return ""
	}
	var all []string
	for _, t := range lock.Terms {
		all = append(all, fmt.Sprintf("%s %s", t.Name, api.Bytes(t.Bytes)))
	}
	return " (" + strings.Join(all, " + ") + ")"
}

// lockAnnotations lists the annotations that request the lock or may raise it.
func (d *decider) lockAnnotations() string {
	var all []string
	for _, base := range []string{api.RequiresLockKey, api.ValueKey, api.GuestMemoryKey,
		api.ResizeMemoryKey, api.OverheadKey, api.DevicesKey} {
		if text := d.written(base); text != "" {
			all = append(all, text)
		}
	}
	return "annotations " + strings.Join(all, ", ")
}

// written returns the container's effective annotation as its author wrote it, with scope. Empty:
// there is none.
func (d *decider) written(base string) string {
	key, value, ok := api.Effective(d.facts.Annotations, base, d.facts.Container)
	if !ok {
		return ""
	}
	return key + ": " + api.Quote(value)
}
