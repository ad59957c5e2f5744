package main

import (
	"fmt"
	"time"
)

// subject is a process that the checker watches.
type subject struct {
	process
	name  string
	owner *subject // of a VM; nil for owners and bystanders

	patience time.Duration // that it may outlive its owner beyond the bound

	asked    bool          // this program has asked for its end, or for its owner's
	gone     time.Time     // when its end was seen
	orphaned time.Duration // lived after its owner's end while the agent ran
	judged   bool          // a finding was made of it
}

func (s *subject) isGone() bool { return !s.gone.IsZero() }

// what a subject is and did, for findings.
func (s *subject) describe(began time.Time) string {
	text := fmt.Sprintf("%s, process %s", s.name, s.process)
	if s.isGone() {
		text += fmt.Sprintf(", gone at %.2f s", s.gone.Sub(began).Seconds())
	}
	if s.owner != nil {
		text += "; owner: " + s.owner.describe(began)
	}
	return text
}
