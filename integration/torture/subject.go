package main

import (
	"fmt"
	"time"
)

// subject is a process watched by the checker: a VM, a launcher process or a bystander.
type subject struct {
	process
	name     string
	launcher *subject // of a VM; otherwise nil

	// added to the time that a VM may outlive its launcher, or that all VMs of a launcher may
	extraTime time.Duration

	endExpected bool          // this program ends the subject or its launcher
	gone        time.Time     // time of its end
	orphanTime  time.Duration // life as an orphan while the agent ran
	settled     bool          // no further finding is possible
}

func (s *subject) isGone() bool { return !s.gone.IsZero() }

// describe formats the subject and its history for findings.
func (s *subject) describe(began time.Time) string {
	text := fmt.Sprintf("%s, process %s", s.name, s.process)
	if s.isGone() {
		text += fmt.Sprintf(", gone at %.2f s", s.gone.Sub(began).Seconds())
	}
	if s.launcher != nil {
		text += "; launcher: " + s.launcher.describe(began)
	}
	return text
}
