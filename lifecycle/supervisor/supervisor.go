package supervisor

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/api/vmfile"
	"github.com/mooring-vm/mooring/lifecycle/gate"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// Config has the parts of a supervisor. Domains, PodDirs, Former, Guard, Observer, and the
// functions are optional.
type Config struct {
	Registry  *registry.Registry
	Tracker   Tracker
	Processes Processes
	Domains   Domains
	PodDirs   PodDirs
	Store     Store
	Former    Store // of ended launchers with a declared domain
	Recorder  registry.Recorder
	Guard     VMGuard
	Observer  Observer
	Clock     host.Clock
	Logger    *slog.Logger

	// Terms apply to each launcher, except for its own grace period and watchdog.
	Terms tie.Terms

	// ReportAlive is called about once a second while the supervisor works.
	ReportAlive func()

	// PublishOwners is called with the launchers that declare a domain, about once a second and
	// after each change. It must not block.
	PublishOwners func([]gate.Owner)

	// RequiresOwner reports whether the node's domain with this name needs an active launcher.
	RequiresOwner func(domain string) bool

	// AfterAbsence is called after an absence, in which the fence may have acted. It returns
	// after the fence has stepped aside.
	AfterAbsence func(context.Context)
}

// VMGuard checks the memory lock of a new VM process: see [guard.Guard].
type VMGuard interface{ EnqueueVM(containerID string) }

// The actions that an [Observer] counts.
const (
	ActionShutdown    = "shutdown"  // a request to libvirt or the pod to shut down a guest
	ActionTerminate   = "terminate" // SIGTERM
	ActionKill        = "kill"      // SIGKILL
	ActionConfirmStop = "confirm"   // a stop confirmation to a pod
)

// Observer counts the actions of a supervisor. Its methods must not block. Several goroutines may
// call them at once.
type Observer interface {
	// ActionDone is called for each action, such as [ActionKill]. err is its failure.
	ActionDone(action string, err error)

	// NotificationsDropped is called if the mailbox is full. The supervisor then resyncs.
	NotificationsDropped()
}

// Supervisor runs the ties of the node's launchers. Run owns the ties. The other methods leave work
// for Run and do not wait for it, except Lease and LeasePod. Several goroutines may call them at
// once.
type Supervisor struct {
	Config

	mu         sync.Mutex
	mailbox    []func(context.Context)
	overflowed bool
	podTies    map[string]int                  // number of ties, by pod UID
	reads      map[host.Process]*argumentsRead // of command lines, by process ID
	wake       chan struct{}

	// The goroutine of Run owns the following fields.
	terms        tie.Terms              // Config.Terms, or those of SetTerms
	ties         map[string]*managedTie // by container ID
	byGroup      map[uint64]*managedTie
	stopHandlers map[string]bool        // UIDs of pods with a stop handler
	former       map[string]*managedTie // dropped ties by their declared domain
	unowned      map[host.Process]bool  // reported, by process ID
	scans        scanQueue
	resyncing    resyncState
	background   sync.WaitGroup
	lastTurn     host.Boottime // start of the present turn of Run

	resyncDue, domainScanDue bool // a timer will start it
	ownersChanged            bool // since the last call of PublishOwners
	reconciled               bool // see [Supervisor.Reconciled]
}

// managedTie is a tie with the resources and notes of its supervisor.
type managedTie struct {
	tie.Tie
	handles map[host.Process]*handle // of the launcher process and the VM processes
	// new emulators with a read of the command line in progress
	examining map[host.Process]bool

	// emulators found by an earlier scan, which left open whether they are VM processes
	pending map[host.Process]bool

	// VM processes reported as started after the launcher's end
	lateReported  map[host.Process]bool
	scanDue       bool // a timer will start a scan
	dropScanDue   bool // a timer will start the last scan
	helperScanDue bool // a timer will start a scan for helpers of ended VMs
	wait          stopWait

	supervisedSince host.Boottime
	restored        bool          // from the store
	endUnseen       bool          // the end of the launcher was not observed
	othersUnknown   bool          // an unknown launcher may have declared the same domain
	keepUntil       host.Boottime // for a tie that is over
	lastHeartbeat   time.Time     // mtime of the pod's file, only for comparison
	podDirRead      bool          // lastHeartbeat is set
	heartbeatAt     host.Boottime // the last observed heartbeat; 0: none
	claimReported   bool          // another launcher has the domain, and an Event says so
	publishedVM     vmfile.VM     // in the pod's directory
}

// New returns a supervisor. It starts with Run.
func New(cfg Config) *Supervisor {
	return &Supervisor{
		Config:       cfg,
		podTies:      map[string]int{},
		reads:        map[host.Process]*argumentsRead{},
		wake:         make(chan struct{}, 1),
		terms:        cfg.Terms,
		ties:         map[string]*managedTie{},
		former:       map[string]*managedTie{},
		unowned:      map[host.Process]bool{},
		byGroup:      map[uint64]*managedTie{},
		stopHandlers: map[string]bool{},
		scans:        scanQueue{requested: map[*managedTie]uint64{}},
	}
}

// HasPod reports whether the supervisor has a tie of the pod, which then needs its directory.
func (s *Supervisor) HasPod(uid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.podTies[uid] > 0
}

func (s *Supervisor) logger(t *managedTie) *slog.Logger {
	l := t.Launcher
	return s.Logger.With("pod", l.Pod.Namespace+"/"+l.Pod.Name, "container", l.Container.Name)
}
