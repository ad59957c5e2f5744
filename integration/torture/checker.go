package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// checker watches processes and checks two promises: no VM outlives its owner by more than a bound,
// and no process is killed that has a living owner or no owner in Mooring. It asks only the kernel,
// never the agent. It is safe for concurrent use.
type checker struct {
	bound    time.Duration // while the agent runs
	absolute time.Duration // in any case, which includes the fence
	agentUp  func() bool
	log      func(format string, args ...any)

	mu       sync.Mutex
	began    time.Time
	subjects []*subject
	findings []string
	worst    time.Duration // longest time that a VM outlived its owner
	ended    int           // VMs that ended after their owner
}

// ownersGrace is how long an owner may live on after its VM when its end was requested. The kernel
// ends a pid namespace before the end of its first process is visible.
const ownersGrace = 10 * time.Second

// tick is the period of checks. A check of all processes costs one system call.
const tick = 100 * time.Millisecond

// watchLate adds a subject that libvirt may have started after the end of its owner, and ends it in
// that case: the agent may no longer know it.
func (c *checker) watchLate(s *subject) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subjects = append(c.subjects, s)
	began, err := s.began()
	if err != nil || !s.owner.isGone() || began.Before(s.owner.gone) {
		return err
	}
	s.asked, s.judged = true, true
	c.log("%s started after its owner's end, and is ended", s.describe(c.began))
	return s.signal(unix.SIGKILL)
}

// watch adds a subject.
func (c *checker) watch(s *subject) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subjects = append(c.subjects, s)
}

// ask records in advance that this program ends subjects.
func (c *checker) ask(all ...*subject) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range all {
		s.asked = true
	}
}

// isGone reports whether a subject has ended.
func (c *checker) isGone(s *subject) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.isGone()
}

// isLeftAlone reports whether a subject lives and its end was not requested.
func (c *checker) isLeftAlone(s *subject) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !s.asked && !s.isGone()
}

// confirm records the agent's confirmation that VMs have ended.
func (c *checker) confirm(all []*subject) {
	if err := c.look(0); err != nil {
		c.log("looking: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range all {
		if !s.isGone() {
			c.find(s, "lives, and its pod was told that it is gone")
		}
	}
}

// run checks until ctx is done.
func (c *checker) run(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			if err := c.look(now.Sub(last)); err != nil {
				return err
			}
			last = now
		}
	}
}

// look records ended subjects and judges all of them. since is the time since the last check.
func (c *checker) look(since time.Duration) error {
	up := c.agentUp()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]process, len(c.subjects))
	for n, s := range c.subjects {
		all[n] = s.process
	}
	gone, err := ended(all)
	if err != nil {
		return fmt.Errorf("asking for the ends of %d processes: %w", len(all), err)
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
		c.judge(s, now, since)
	}
	c.forget(now)
	return nil
}

// judge checks one subject against the promises. since counts only while the agent ran.
func (c *checker) judge(s *subject, now time.Time, since time.Duration) {
	switch {
	case s.judged:
	case s.owner == nil:
		if s.isGone() && !s.asked {
			c.find(s, "has ended, and nobody asked for it")
		}
	case !s.isGone() && s.owner.isGone():
		s.orphaned += since
		outlived := now.Sub(s.owner.gone)
		c.worst = max(c.worst, outlived)
		if s.orphaned > c.bound+s.patience || outlived > c.absolute {
			c.find(s, fmt.Sprintf("outlives its owner by %.1f s, in %.1f of which the agent ran", outlived.Seconds(), s.orphaned.Seconds()))
		}
	case s.isGone() && !s.asked && !s.owner.isGone():
		if !s.owner.asked || now.Sub(s.gone) > ownersGrace {
			c.find(s, "has ended, and its owner lives")
		}
	}
}

func (c *checker) find(s *subject, what string) {
	s.judged = true
	text := s.describe(c.began) + ": " + what
	c.findings = append(c.findings, text)
	c.log("FINDING: %s", text)
}

// forget drops subjects after their last possible finding.
func (c *checker) forget(now time.Time) {
	kept := c.subjects[:0]
	for _, s := range c.subjects {
		settled := s.isGone() && now.Sub(s.gone) > ownersGrace+tick && (s.owner == nil || s.asked || s.judged || s.owner.isGone())
		if !settled {
			kept = append(kept, s)
			continue
		}
		if s.owner != nil {
			c.ended++
		}
		s.close()
	}
	clear(c.subjects[len(kept):])
	c.subjects = kept
}

// orphans returns the number of living VMs without a living owner.
func (c *checker) orphans() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, s := range c.subjects {
		if s.owner != nil && s.owner.isGone() && !s.isGone() && !s.judged {
			n++
		}
	}
	return n
}
