package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// checker watches processes and holds what happens to them against two promises:
// no VM outlives its owner by more than a bound, and nothing is killed that has a
// living owner or none of ours. It asks the kernel alone, never the agent. It is
// safe for concurrent use.
type checker struct {
	bound    time.Duration // for the agent, while it runs
	absolute time.Duration // for the fence, whoever runs
	agentUp  func() bool
	log      func(format string, args ...any)

	mu       sync.Mutex
	began    time.Time
	subjects []*subject
	findings []string
	worst    time.Duration // that a VM outlived its owner
	ended    int           // VMs whose end was seen after their owner's
}

// ownersGrace is how long an owner that was asked to end may take for it after its
// VM: the kernel ends a pid namespace before the end of its first process is seen.
const ownersGrace = 10 * time.Second

// tick is how often the checker looks. That costs one system call for all.
const tick = 100 * time.Millisecond

// watchLate adds a subject that libvirt may have started when its owner had ended, and
// ends it if so: it outlives nobody, and the agent may know nothing of it any more.
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

// ask notes, before it happens, that this program ends subjects.
func (c *checker) ask(all ...*subject) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range all {
		s.asked = true
	}
}

// isGone reports whether a subject's end was seen.
func (c *checker) isGone(s *subject) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.isGone()
}

// isLeftAlone reports whether a subject lives, and nobody has asked for its end.
func (c *checker) isLeftAlone(s *subject) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !s.asked && !s.isGone()
}

// confirm notes that the agent says that VMs are gone.
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

// run looks until the context ends.
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

// look notes who has gone, and judges; since is how long ago it last did.
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

// judge holds one subject against the promises. since counts only while the agent
// ran.
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

// forget drops what can no longer be judged.
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

// orphans are how many VMs live whose owners do not.
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
