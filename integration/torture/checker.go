package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// checker watches processes and checks two promises of Mooring. No VM outlives its launcher by more
// than a bound. Mooring kills no VM with a living launcher, and no process without a launcher. The
// checker reads only the kernel, never the agent. It is safe for concurrent use.
type checker struct {
	bound    time.Duration // limit for an orphan's life while the agent runs
	absolute time.Duration // limit for an orphan's life in any case, fence included
	agentUp  func() bool   // it runs and ends orphans
	log      func(format string, args ...any)

	mu       sync.Mutex
	began    time.Time
	subjects []*subject
	findings []string
	worst    time.Duration // longest life of an orphan
	endedVMs int           // VMs dropped after their end
}

// launcherExitGrace is how long a launcher with an expected end may outlive its VM. When a pid
// namespace ends, the kernel kills its processes before the end of the first process is visible.
const launcherExitGrace = 10 * time.Second

// tick is the period of scans. A scan of all processes costs one system call.
const tick = 100 * time.Millisecond

// watchDomain adds a domain's VM. libvirt may have started the VM after its launcher's end. The
// agent may have forgotten the launcher by then, so the checker kills this VM itself.
func (c *checker) watchDomain(s *subject) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subjects = append(c.subjects, s)
	began, err := s.startTime()
	if err != nil || !s.launcher.isGone() || began.Before(s.launcher.gone) {
		return err
	}
	s.endExpected, s.settled = true, true
	c.log("%s started after its launcher ended, and is killed", s.describe(c.began))
	return s.signal(unix.SIGKILL)
}

// watch adds a subject.
func (c *checker) watch(s *subject) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subjects = append(c.subjects, s)
}

// expectEnd records in advance that this program ends subjects.
func (c *checker) expectEnd(all ...*subject) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range all {
		s.endExpected = true
	}
}

// isGone reports whether a subject has ended.
func (c *checker) isGone(s *subject) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.isGone()
}

// mustLive reports whether a subject lives and this program has not ended it.
func (c *checker) mustLive(s *subject) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !s.endExpected && !s.isGone()
}

// checkConfirmation adds a finding for each VM that lives after the agent's stop confirmation.
func (c *checker) checkConfirmation(all []*subject) {
	if err := c.scan(0); err != nil {
		c.log("scanning: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range all {
		if !s.isGone() {
			c.addFinding(s, "lives after its stop confirmation")
		}
	}
}

// run checks until the context ends.
func (c *checker) run(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			if err := c.scan(now.Sub(last)); err != nil {
				return err
			}
			last = now
		}
	}
}

// scan records ended subjects and evaluates all subjects. since is the time since the last scan.
func (c *checker) scan(since time.Duration) error {
	up := c.agentUp()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]process, len(c.subjects))
	for n, s := range c.subjects {
		all[n] = s.process
	}
	gone, err := pollEnded(all)
	if err != nil {
		return fmt.Errorf("polling %d processes: %w", len(all), err)
	}
	now := time.Now()
	for n, s := range c.subjects {
		if gone[n] && !s.isGone() {
			s.gone = now
		}
	}
	if !up {
		since = 0
	}
	for _, s := range c.subjects {
		c.evaluate(s, now, since)
	}
	c.dropSettled(now)
	return nil
}

// evaluate checks one subject against the promises. since is the part of the last period in which
// the agent ran.
func (c *checker) evaluate(s *subject, now time.Time, since time.Duration) {
	switch {
	case s.settled:
	case s.launcher == nil:
		if s.isGone() && !s.endExpected {
			c.addFinding(s, "has ended without cause")
		}
	case !s.isGone() && s.launcher.isGone():
		s.orphanTime += since
		outlived := now.Sub(s.launcher.gone)
		c.worst = max(c.worst, outlived)
		if s.orphanTime > c.bound+s.extraTime+s.launcher.extraTime || outlived > c.absolute {
			c.addFinding(s, fmt.Sprintf(
				"outlives its launcher by %.1f s; the agent ran for %.1f s of them",
				outlived.Seconds(), s.orphanTime.Seconds()))
		}
	case s.isGone() && !s.endExpected && !s.launcher.isGone():
		if !s.launcher.endExpected || now.Sub(s.gone) > launcherExitGrace {
			c.addFinding(s, "has ended, and its launcher lives")
		}
	}
}

// report records a broken promise about no subject.
func (c *checker) report(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.findings = append(c.findings, text)
	c.log("FINDING: %s", text)
}

// addFinding records that a subject broke a promise.
func (c *checker) addFinding(s *subject, text string) {
	s.settled = true
	finding := s.describe(c.began) + ": " + text
	c.findings = append(c.findings, finding)
	c.log("FINDING: %s", finding)
}

// dropSettled drops subjects that can have no further finding.
func (c *checker) dropSettled(now time.Time) {
	kept := c.subjects[:0]
	for _, s := range c.subjects {
		final := s.launcher == nil || s.endExpected || s.settled || s.launcher.isGone()
		if !final || !s.isGone() || now.Sub(s.gone) <= launcherExitGrace+tick {
			kept = append(kept, s)
			continue
		}
		if s.launcher != nil {
			c.endedVMs++
		}
		s.close()
	}
	clear(c.subjects[len(kept):])
	c.subjects = kept
}

// orphans returns the number of VMs that outlive their launchers and have no finding yet.
func (c *checker) orphans() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, s := range c.subjects {
		if s.launcher != nil && s.launcher.isGone() && !s.isGone() && !s.settled {
			n++
		}
	}
	return n
}
