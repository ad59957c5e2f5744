package lifecycletest

import (
	"context"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/lifecycle"
)

// Clock is a [lifecycle.Clock] that goes by the time package's: in a bubble of
// testing/synctest it is a fake.
type Clock struct{ start time.Time }

// NewClock returns a clock of a node that was booted an hour ago.
func NewClock() Clock { return Clock{time.Now().Add(-time.Hour)} }

// Now implements [lifecycle.Clock].
func (c Clock) Now() lifecycle.Boottime { return lifecycle.Boottime(time.Since(c.start)) }

// Store is a [lifecycle.Store] in memory.
type Store struct {
	mu   sync.Mutex
	ties map[string]lifecycle.Tie
}

var _ lifecycle.Store = (*Store)(nil)

// Save implements [lifecycle.Store].
func (s *Store) Save(t lifecycle.Tie) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ties == nil {
		s.ties = map[string]lifecycle.Tie{}
	}
	s.ties[t.Launcher.Container.ID] = t
	return nil
}

// Delete implements [lifecycle.Store].
func (s *Store) Delete(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ties, id)
	return nil
}

// Load implements [lifecycle.Store].
func (s *Store) Load() ([]lifecycle.Tie, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.ties)), nil
}

// Signs is what pods say, as a [lifecycle.PodSigns].
type Signs struct {
	mu   sync.Mutex
	pods map[string]lifecycle.Signs
}

var _ lifecycle.PodSigns = (*Signs)(nil)

// Touch changes what a pod says, which makes it a directory.
func (s *Signs) Touch(uid string, change func(*lifecycle.Signs)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pods == nil {
		s.pods = map[string]lifecycle.Signs{}
	}
	signs := s.pods[uid]
	change(&signs)
	s.pods[uid] = signs
}

// Signs implements [lifecycle.PodSigns].
func (s *Signs) Signs(uid string) (lifecycle.Signs, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	signs, ok := s.pods[uid]
	if !ok {
		return signs, fs.ErrNotExist
	}
	return signs, nil
}

// ConfirmStop implements [lifecycle.PodSigns].
func (s *Signs) ConfirmStop(uid string) error {
	s.Touch(uid, func(signs *lifecycle.Signs) { signs.StopAsked = false })
	return nil
}

// Domains are those of a libvirt that is none.
type Domains struct {
	// OnShutdown is called for each request; nil: it does nothing.
	OnShutdown func(d lifecycle.Domain) error

	mu      sync.Mutex
	running []lifecycle.Domain
}

var _ lifecycle.Domains = (*Domains)(nil)

// Run adds a domain.
func (d *Domains) Run(domain lifecycle.Domain) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = append(d.running, domain)
}

// Forget removes what runs of a domain.
func (d *Domains) Forget(uuid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = slices.DeleteFunc(d.running, func(domain lifecycle.Domain) bool { return domain.UUID == uuid })
}

// Running implements [lifecycle.Domains].
func (d *Domains) Running() ([]lifecycle.Domain, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.running), nil
}

// RunBy implements [lifecycle.Domains]: it goes by the last argument.
func (*Domains) RunBy(domain lifecycle.Domain, args []string) bool {
	return len(args) > 0 && args[len(args)-1] == domain.UUID
}

// Shutdown implements [lifecycle.Domains].
func (d *Domains) Shutdown(_ context.Context, domain lifecycle.Domain) error {
	if d.OnShutdown == nil {
		return nil
	}
	return d.OnShutdown(domain)
}
