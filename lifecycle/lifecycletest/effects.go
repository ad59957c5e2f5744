package lifecycletest

import (
	"context"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/api/vmfile"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// Clock is a [host.Clock] based on package time, and thus fake in a bubble of testing/synctest.
type Clock struct{ start time.Time }

// NewClock returns a clock of a node that was booted an hour ago.
func NewClock() Clock { return Clock{time.Now().Add(-time.Hour)} }

// Now implements [host.Clock].
func (c Clock) Now() host.Boottime { return host.Boottime(time.Since(c.start)) }

// Store is a [supervisor.Store] in memory.
type Store struct {
	mu   sync.Mutex
	ties map[string]tie.Tie
}

var _ supervisor.Store = (*Store)(nil)

// Save implements [supervisor.Store].
func (s *Store) Save(t tie.Tie) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ties == nil {
		s.ties = map[string]tie.Tie{}
	}
	s.ties[t.Launcher.Container.ID] = t
	return nil
}

// Delete implements [supervisor.Store].
func (s *Store) Delete(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ties, id)
	return nil
}

// Load implements [supervisor.Store].
func (s *Store) Load() ([]tie.Tie, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.ties)), nil
}

// PodDirs is a [supervisor.PodDirs] in memory.
type PodDirs struct {
	mu   sync.Mutex
	pods map[string]poddir.Touched
	vms  map[string][]byte
}

var _ supervisor.PodDirs = (*PodDirs)(nil)

// Touch changes the files of a pod, and creates its directory if it is missing.
func (s *PodDirs) Touch(uid string, change func(*poddir.Touched)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pods == nil {
		s.pods = map[string]poddir.Touched{}
	}
	touched := s.pods[uid]
	change(&touched)
	s.pods[uid] = touched
}

// Touched implements [supervisor.PodDirs].
func (s *PodDirs) Touched(uid string) (poddir.Touched, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	touched, ok := s.pods[uid]
	if !ok {
		return touched, fs.ErrNotExist
	}
	return touched, nil
}

// ConfirmStop implements [supervisor.PodDirs].
func (s *PodDirs) ConfirmStop(uid string) error {
	s.Touch(uid, func(touched *poddir.Touched) { touched.StopRequested = false })
	return nil
}

// WriteVM implements [supervisor.PodDirs].
func (s *PodDirs) WriteVM(uid string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.pods[uid]; !ok {
		return fs.ErrNotExist
	}
	if s.vms == nil {
		s.vms = map[string][]byte{}
	}
	s.vms[uid] = data
	return nil
}

// VM returns the published VM of a pod, empty if there is none.
func (s *PodDirs) VM(uid string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vms[uid]
}

// Domains are the domains of a fake libvirt.
type Domains struct {
	// OnEnd is called for each question for the reason of an end. nil: there is no reason.
	OnEnd func(ctx context.Context, d tie.Domain) (vmfile.Reason, error)

	// OnShutdown is called for each shutdown request. It may be nil.
	OnShutdown func(d tie.Domain) error

	mu         sync.Mutex
	running    []tie.Domain
	unreadable []tie.Domain
	younger    map[host.Process]bool
	fail       error
}

var _ supervisor.Domains = (*Domains)(nil)

// Run adds a domain.
func (d *Domains) Run(domain tie.Domain) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = append(d.running, domain)
}

// Break replaces the domains with unreadable records.
func (d *Domains) Break(unreadable ...tie.Domain) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unreadable = unreadable
}

// Forget removes the records of a domain.
func (d *Domains) Forget(uuid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = slices.DeleteFunc(d.running, func(domain tie.Domain) bool {
		return domain.UUID == uuid
	})
}

// Predate makes the records older than a process.
func (d *Domains) Predate(p host.Process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.younger = map[host.Process]bool{p.ID(): true}
}

// Fail makes Running fail until it is called with nil.
func (d *Domains) Fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = err
}

// Running implements [supervisor.Domains].
func (d *Domains) Running() (running, unreadable []tie.Domain, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		return nil, nil, d.fail
	}
	return slices.Clone(d.running), slices.Clone(d.unreadable), nil
}

// RunBy implements [supervisor.Domains]. It compares the last argument with the UUID.
func (*Domains) RunBy(domain tie.Domain, args []string) bool {
	return len(args) > 0 && args[len(args)-1] == domain.UUID
}

// MayRunBy implements [supervisor.Domains]. The only daemon of the fake libvirt is virtqemud.
func (d *Domains) MayRunBy(domain tie.Domain, args []string) bool {
	return d.RunBy(domain, args) || len(args) > 0 && path.Base(args[0]) == "virtqemud"
}

// ExcludedBy implements [supervisor.Domains] for the arguments "-name", a name, "-uuid", a UUID.
func (*Domains) ExcludedBy(domain tie.Domain, args []string) bool {
	value := func(option string) string {
		at := slices.Index(args, option)
		if at < 0 || at+1 == len(args) {
			return ""
		}
		return args[at+1]
	}
	name, id := value("-name"), value("-uuid")
	return name != "" && id != "" && name != domain.Name && id != domain.UUID
}

// Predates implements [supervisor.Domains]: see Predate.
func (d *Domains) Predates(_ tie.Domain, p host.Process) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.younger[p.ID()]
}

// WhyEnded implements [supervisor.Domains].
func (d *Domains) WhyEnded(
	ctx context.Context, domain tie.Domain, _ host.Boottime,
) (vmfile.Reason, error) {
	if d.OnEnd == nil {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return d.OnEnd(ctx, domain)
}

// Shutdown implements [supervisor.Domains].
func (d *Domains) Shutdown(_ context.Context, domain tie.Domain) error {
	if d.OnShutdown == nil {
		return nil
	}
	return d.OnShutdown(domain)
}
