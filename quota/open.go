package quota

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
)

// OpenAnnotation of a namespace lets pods pass the guard until a time in RFC 3339, at most
// [maxOpen] ahead. Administrators set it in an emergency. Pods can take the room of migrations
// then.
const OpenAnnotation = "open.quota" + api.Suffix

// maxOpen is the longest time for which a namespace can be open.
const maxOpen = 24 * time.Hour

// OpenUntil returns until when pods pass the guard of a namespace; zero: they do not. The error is
// an [*api.InvalidError]. An unreadable value has no effect.
func OpenUntil(ns *corev1.Namespace, now time.Time) (time.Time, error) {
	if ns == nil || ns.Annotations[OpenAnnotation] == "" {
		return time.Time{}, nil
	}
	text := ns.Annotations[OpenAnnotation]
	until, err := time.Parse(time.RFC3339, text)
	if err != nil || until.Sub(now) > maxOpen {
		return time.Time{}, &api.InvalidError{Key: OpenAnnotation, Value: text,
			Allowed: "want a time such as 2026-01-02T15:04:05Z, at most 24 hours ahead"}
	}
	if !now.Before(until) {
		return time.Time{}, nil
	}
	return until, nil
}

// open reads the annotation into the plan.
func (p *planner) open() time.Time {
	until, err := OpenUntil(p.Namespace, p.Now)
	if err != nil {
		p.faults = append(p.faults, Fault{"Namespace", p.Namespace.Name, err})
	}
	return until
}
