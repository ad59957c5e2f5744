package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

const (
	// maxMailbox bounds what has come and was not dealt with yet. What does not
	// fit is found by a look at everything.
	maxMailbox = 1 << 14

	// podDirInterval and looksEvery are how often what was told by hints is looked
	// for without any.
	podDirInterval = 10 * time.Second
	resyncInterval = 30 * time.Second

	// aliveInterval is how often the fence is told that somebody is here.
	aliveInterval = time.Second
)

// Config is what a supervisor works with. Domains, Signs, Guard, Observer,
// Alive and Back are optional.
type Config struct {
	Registry  *registry.Registry
	Tracker   Tracker
	Processes Processes
	Domains   Domains
	PodDirs   PodDirs
	Store     Store
	Recorder  registry.Recorder
	Guard     VMGuard
	Observer  Observer
	Clock     host.Clock
	Logger    *slog.Logger

	// Terms holds for every launcher, but for the grace period and the
	// watchdog that it has declared.
	Terms tie.Terms

	// ReportAlive is called about once a second while the supervisor works.
	ReportAlive func()

	// AfterAbsence is called after an absence in which others may have stood in, and returns
	// once they have stepped aside.
	AfterAbsence func(context.Context)
}

// VMGuard checks the memory lock of a VM process that has just started: see [guard.Guard].
type VMGuard interface{ EnqueueVM(containerID string) }

// What [Observer] is told of.
const (
	ActionShutdown    = "shutdown"  // libvirt or the pod was asked to shut a guest down
	ActionTerminate   = "terminate" // SIGTERM
	ActionKill        = "kill"      // SIGKILL
	ActionConfirmStop = "confirm"   // a pod was told that its VM is gone
)

// Observer counts what a supervisor does. Its methods must not block and
// may be called from several goroutines at once.
type Observer interface {
	// ActionDone is called for each signal, shutdown and confirmation: one of ActedKill
	// and its like.
	ActionDone(action string, err error)

	// NotificationsDropped is called when too much waits to be dealt with, and
	// everything is looked at instead.
	NotificationsDropped()
}

// Supervisor holds the ties of the node's launchers, steps them by what happens, and
// does what the steps want done. All of it is done in the goroutine of Run, but for
// what may take its time. The other methods may be called from several goroutines
// at once, and do not wait for it.
type Supervisor struct {
	Config

	mu         sync.Mutex
	mailbox    []func(context.Context)
	overflowed bool
	podTies    map[string]int                  // launchers that are not over, by the UID of their pod
	reads      map[host.Process]*argumentsRead // command lines, by the name of their process
	wake       chan struct{}

	// What follows belongs to the goroutine of Run.
	ties         map[string]*managedTie // by container ID
	byGroup      map[uint64]*managedTie
	stopHandlers map[string]bool // UIDs of pods in which somebody takes requests
	scans        scanQueue
	resyncing    resyncState
	background   sync.WaitGroup
	lastTurn     host.Boottime // when the last turn of Run was

	resyncDue, domainScanDue bool // something is going to be looked for
	reconciled               bool // the runtime has said which launchers run
}

// managedTie is a tie with what it holds on to.
type managedTie struct {
	tie.Tie
	handles   map[host.Process]host.Handle // of its owner and VM processes, by name
	examining map[host.Process]bool        // VM processes that are being looked at, by name

	exits        map[host.Process]string // that VM processes are ending, by name
	lateReported map[host.Process]bool   // that were told to have started after its end, by name
	scanDue      bool                    // it is going to be looked at
	dropScanDue  bool                    // likewise, once it has lingered

	supervisedSince host.Boottime // since when this supervisor looks after it
	restored        bool          // it was taken over from an earlier one
	endUnseen       bool          // nobody saw its owner end
	othersUnknown   bool          // there may be launchers that nobody here has heard of
	keepUntil       host.Boottime // until when it is looked after when it is over
	lastHeartbeat   time.Time     // that of the pod's file, only to be compared
	claimReported   bool          // that another launcher has its domain
}

// New returns a supervisor that does nothing until Run is called.
func New(cfg Config) *Supervisor {
	return &Supervisor{
		Config: cfg, podTies: map[string]int{}, reads: map[host.Process]*argumentsRead{}, wake: make(chan struct{}, 1),
		ties: map[string]*managedTie{}, byGroup: map[uint64]*managedTie{}, stopHandlers: map[string]bool{}, scans: scanQueue{requested: map[*managedTie]uint64{}},
	}
}

// Register has the processes of a launcher tracked, before the first of them runs.
// It makes a handful of system calls, so NRI handlers may call it. What the pod's
// directory says is from an earlier container of the pod, and void.
//
// Where the cgroup is not known, it is looked for once the launcher has started.
func (s *Supervisor) Register(l registry.Launcher, cgroup string) error {
	var group uint64
	var err error
	if cgroup != "" {
		group, err = s.Tracker.Register(cgroup)
	}
	before := s.clearStopRequest(l.Pod.UID)
	s.enqueue(func(ctx context.Context) {
		if s.ties[l.Container.ID] == nil {
			s.addLauncher(l).lastHeartbeat = before
		}
		if group != 0 && err == nil {
			s.setGroup(ctx, s.ties[l.Container.ID], cgroup, group)
			s.resyncSoon()
		}
	})
	if err != nil {
		return fmt.Errorf("track the processes of container %s: %w", l.Container.Name, err)
	}
	return nil
}

// LauncherStarted tells that the first process of a launcher runs. Launchers that were not
// registered are then: they were started while nobody was here.
func (s *Supervisor) LauncherStarted(l registry.Launcher) {
	s.enqueue(func(ctx context.Context) { s.setLauncherProcess(ctx, l) })
}

// Reconciled tells that the runtime has said which launchers run, and that Started was
// called for each.
func (s *Supervisor) Reconciled() {
	s.enqueue(func(ctx context.Context) {
		doubted := !s.reconciled
		s.reconciled = true
		for _, t := range s.ties {
			doubted = doubted || t.othersUnknown
			t.othersUnknown = false
		}
		if doubted {
			s.scanAll(ctx)
		}
	})
}

// ScanLauncher asks for a look at the launcher with this container ID: something may have
// happened to it.
func (s *Supervisor) ScanLauncher(containerID string) {
	s.notify(func(ctx context.Context) {
		if t := s.ties[containerID]; t != nil {
			s.requestScan(ctx, t, t.PendingScan())
		}
	})
}

// ProcessEvent takes what the tracker tells.
func (s *Supervisor) ProcessEvent(seen ProcessEvent) {
	s.notify(func(ctx context.Context) { s.handleProcessEvent(ctx, seen) })
}

// EventsLost tells that the tracker has lost sightings.
func (s *Supervisor) EventsLost() { s.notify(func(context.Context) { s.resyncSoon() }) }

// PodTouched tells that a pod has touched a file of its directory.
func (s *Supervisor) PodTouched(podUID string) {
	s.notify(func(context.Context) {
		for _, t := range s.ties {
			if t.Launcher.Pod.UID == podUID {
				s.readPodDir(t)
			}
		}
	})
}

// DomainsChanged tells that domains of the node's libvirt have come or gone.
func (s *Supervisor) DomainsChanged() { s.notify(s.scanDomains) }

// HasPod reports whether a launcher of the pod is not over: its directory is needed.
func (s *Supervisor) HasPod(uid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.podTies[uid] > 0
}

// Restore takes over the ties that the store has. To be called before Run.
func (s *Supervisor) Restore() error {
	stored, err := s.Store.Load()
	for _, t := range stored {
		s.enqueue(func(ctx context.Context) { s.restoreTie(ctx, t) })
	}
	if err != nil {
		return fmt.Errorf("ties of launchers that ran before: %w", err)
	}
	return nil
}

// Run supervises until ctx is done, and waits for what it has begun. What was
// registered stays registered.
func (s *Supervisor) Run(ctx context.Context) {
	defer s.background.Wait()
	signs, looks, alive := time.NewTicker(podDirInterval), time.NewTicker(resyncInterval), time.NewTicker(aliveInterval)
	defer signs.Stop()
	defer looks.Stop()
	defer alive.Stop()
	due := time.NewTimer(0)
	defer due.Stop()
	s.reportAlive()
	s.lastTurn = s.Clock.Now()
	for ctx.Err() == nil {
		s.detectAbsence(ctx)
		for _, deal := range s.drainMailbox() {
			deal(ctx)
		}
		s.setTimer(due)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-due.C:
			s.stepDue()
		case <-signs.C:
			s.readAllPodDirs()
			s.recordAlive()
		case <-looks.C:
			s.resync(ctx)
		case <-alive.C:
			s.reportAlive()
		}
	}
	if !s.Terms.ProofOnly { // the agent is back, and has noted more since
		s.recordAlive()
	}
	s.closeHandles()
}

func (s *Supervisor) reportAlive() {
	if s.ReportAlive != nil {
		s.ReportAlive()
	}
}

// notify leaves something to be done by Run. It does not block.
func (s *Supervisor) notify(deal func(context.Context)) {
	s.mu.Lock()
	full := len(s.mailbox) >= maxMailbox
	if full {
		s.overflowed = true
	} else {
		s.mailbox = append(s.mailbox, deal)
	}
	s.mu.Unlock()
	if full && s.Observer != nil {
		s.Observer.NotificationsDropped()
	}
	s.wakeUp()
}

// enqueue is post for what must not be dropped, of which there is little.
func (s *Supervisor) enqueue(deal func(context.Context)) {
	s.mu.Lock()
	s.mailbox = append(s.mailbox, deal)
	s.mu.Unlock()
	s.wakeUp()
}

func (s *Supervisor) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Supervisor) drainMailbox() []func(context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.mailbox
	s.mailbox = nil
	if s.overflowed {
		s.overflowed = false
		taken = append(taken, s.resync, s.scanDomains)
	}
	return taken
}

// setTimer makes the timer fire when the next tie is due.
func (s *Supervisor) setTimer(timer *time.Timer) {
	next := time.Hour
	now := s.Clock.Now()
	for _, t := range s.ties {
		if at, ok := t.Due(); ok {
			next = min(next, max(at.Sub(now), 0))
		}
	}
	timer.Reset(next)
}

// stepDue steps the ties that are due.
func (s *Supervisor) stepDue() {
	now := s.Clock.Now()
	for _, t := range s.ties {
		if at, ok := t.Due(); ok && at <= now {
			// A heartbeat may have come since somebody looked for one.
			s.readPodDir(t)
			s.step(t, tie.TimePassed{})
		}
	}
}

func (s *Supervisor) logger(t *tie.Tie) *slog.Logger {
	return s.Logger.With("pod", t.Launcher.Pod.Namespace+"/"+t.Launcher.Pod.Name, "container", t.Launcher.Container.Name)
}

var (
	errNoDomains  = errors.New("the policy names no libvirt of the node")
	errNotRunning = errors.New("libvirt has no note that this process runs the domain")
)
