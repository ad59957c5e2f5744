package main

import (
	"fmt"
	"time"
)

// subject is a process watched by the checker.
type subject struct {
	process
	name  string
	owner *subject // of a VM; nil for owners and bystanders

	patience time.Duration // additional time to outlive its owner

	asked    bool          // this program requested its end, or its owner's
	gone     time.Time     // time of its end
	orphaned time.Duration // lifetime after its owner's end while the agent ran
	judged   bool          // it has a finding
}

func (s *subject) isGone() bool { return !s.gone.IsZero() }

// describe formats the subject and its history for findings.
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
