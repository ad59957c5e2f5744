package decide

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/memlock"
)

// Refusal says why a container may not be created. It is an error whose text
// kubelet shows to the pod's author: one line that names the annotation, its
// value, the limit, the rule, and what to do.
type Refusal struct {
	Reason  agentapi.Reason // of the first fault
	Message string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

// maxFaults bounds what is told of one container: the text has to fit Events.
const maxFaults = 10

// fault is one thing that speaks against a container.
type fault struct {
	reason agentapi.Reason
	text   string
}

func (d *decider) refuse(reason agentapi.Reason, format string, args ...any) {
	d.faults = append(d.faults, fault{reason, fmt.Sprintf(format, args...)})
}

// refusal joins the faults, nil when there are none.
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

// asked says what is asked for, and by which annotations.
func (d *decider) asked(lock memlock.Result, request api.Request) string {
	var all []string
	if lock.Required {
		all = append(all, d.askedLock(lock))
	}
	for _, s := range request.Cgroup {
		all = append(all, "annotation "+d.written(s.File+api.CgroupSuffix))
	}
	if request.Domain != "" {
		all = append(all, "annotation "+d.written(api.DomainKey))
	}
	return strings.Join(all, ", ")
}

// askedLock says what the lock is, what it was computed from, and the annotations
// that ask for it.
func (d *decider) askedLock(lock memlock.Result) string {
	return fmt.Sprintf("%s ask for a memory lock of %s%s", d.lockAnnotations(), limitOf(lock), sumOf(lock))
}

// sumOf spells out a sum of more than one term.
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

// lockAnnotations lists the annotations that a lock comes from.
func (d *decider) lockAnnotations() string {
	var all []string
	for _, base := range []string{api.RequiresLockKey, api.ValueKey, api.GuestMemoryKey, api.DevicesKey} {
		if text := d.written(base); text != "" {
			all = append(all, text)
		}
	}
	return "annotations " + strings.Join(all, ", ")
}

// written returns the annotation that holds for the container as its author wrote
// it, with scope; empty when there is none.
func (d *decider) written(base string) string {
	key, value, ok := api.Effective(d.facts.Annotations, base, d.facts.Container)
	if !ok {
		return ""
	}
	return key + ": " + quote(value)
}

// quote returns an annotation's value for people: printable and of bounded length.
func quote(s string) string {
	const most = 80
	if len(s) <= most {
		return strconv.QuoteToGraphic(s)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.QuoteToGraphic(s[:cut]) + "..."
}

// oneLine is the text of an error that may be several, joined.
func oneLine(err error) string {
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}
