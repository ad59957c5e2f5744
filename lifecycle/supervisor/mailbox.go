package supervisor

import "context"

// maxMailbox bounds the waiting notifications. After an overflow a resync replaces them.
const maxMailbox = 1 << 14

// notify leaves a notification for Run. A full mailbox drops it. notify does not block.
func (s *Supervisor) notify(work func(context.Context)) {
	s.mu.Lock()
	full := len(s.mailbox) >= maxMailbox
	if full {
		s.overflowed = true
	} else {
		s.mailbox = append(s.mailbox, work)
	}
	s.mu.Unlock()
	if full && s.Observer != nil {
		s.Observer.NotificationsDropped()
	}
	s.wakeUp()
}

// enqueue leaves work for Run, also in a full mailbox. Its callers produce little of it.
func (s *Supervisor) enqueue(work func(context.Context)) {
	s.mu.Lock()
	s.mailbox = append(s.mailbox, work)
	s.mu.Unlock()
	s.wakeUp()
}

func (s *Supervisor) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// drainMailbox empties the mailbox. After an overflow it adds a resync.
func (s *Supervisor) drainMailbox() []func(context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	work := s.mailbox
	s.mailbox = nil
	if s.overflowed {
		s.overflowed = false
		work = append(work, s.resync, s.scanDomains)
	}
	return work
}

// inBackground runs slow work in a goroutine of its own. The function that work returns then runs
// in the goroutine of Run.
func (s *Supervisor) inBackground(
	ctx context.Context, work func(context.Context) func(context.Context),
) {
	s.background.Go(func() {
		if then := work(ctx); then != nil && ctx.Err() == nil {
			s.enqueue(then)
		}
	})
}
