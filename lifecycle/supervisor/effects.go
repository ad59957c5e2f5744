package supervisor

import (
	"context"
	"errors"

	"github.com/mooring-vm/mooring/api/vmfile"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// Tracked is a process known to the tracker.
type Tracked struct {
	host.Process

	// Group is the group of the process. It comes from the cgroup, the parent or
	// [Tracker.Bind]. 0: none.
	Group uint64

	// Bound means that Group comes from [Tracker.Bind], for the process or its parent.
	Bound bool

	// Executable is the base name of the executed emulator, empty for another file.
	Executable string
}

// Tracker knows the processes of registered cgroups and all emulators of the node. Its methods make
// local system calls. Several goroutines may call them at once. Paths of cgroups are below the root
// of the hierarchy.
type Tracker interface {
	// Register tracks the processes of a cgroup, of the cgroups below it, and their descendants
	// as a group. No other cgroup gets this group until the next boot. A registered cgroup is no
	// error. NRI handlers may call Register: it makes one or two system calls.
	Register(cgroup string) (group uint64, err error)

	// Unregister forgets a group. Its cgroup may be gone.
	Unregister(group uint64) error

	// Bind adds a process and its future children to a group.
	Bind(p host.Process, group uint64) error

	// Watch adds an event for the end of a process, and returns the process with the best known
	// start time.
	Watch(p host.Process) (host.Process, error)

	// Snapshot returns the tracked processes: of all groups, and emulators everywhere. Some may
	// have ended. complete is false if processes may be missing. A missing emulator had an event
	// at its start, and none at its end.
	Snapshot() (all []Tracked, complete bool, err error)

	// Rescan finds missing processes. It walks through all tasks of the node.
	Rescan() error
}

// ProcessEvent is an event of the tracker: a process executes an emulator, executes another file
// after an emulator (Executable is empty), or ends.
type ProcessEvent struct {
	Tracked
	Forked bool   // the process is a fork of an emulator and executes the same file
	Ended  bool   // its last thread has ended, and the process ends soon
	How    string // exit code or signal, as text

	// At is the time of the end, which may be long ago. 0: unknown.
	At host.Boottime
}

// ErrNoDomain means that libvirt does not run a domain in the given process. It does not prove the
// end of the process.
var ErrNoDomain = errors.New("libvirt does not run the domain in this process")

// Domains are the domains of the node's libvirt.
type Domains interface {
	// Running lists the domains that libvirt has recorded as running. The records may be out of
	// date: see RunBy. unreadable has the domains with unreadable records, with their names and the
	// known UUIDs. After an error the lists may be incomplete.
	Running() (running, unreadable []tie.Domain, err error)

	// RunBy reports whether a process with these arguments runs the domain.
	RunBy(d tie.Domain, args []string) bool

	// MayRunBy reports whether a process with these arguments runs the domain, or is a child of
	// libvirt that may still execute its emulator.
	MayRunBy(d tie.Domain, args []string) bool

	// ExcludedBy reports whether a process with these arguments certainly runs another domain than
	// d. The UUID of d may be empty. False: unknown.
	ExcludedBy(d tie.Domain, args []string) bool

	// Predates reports whether the record of the domain is certainly older than the process. It
	// then means a former process with the same pid. False: unknown.
	Predates(d tie.Domain, p host.Process) bool

	// WhyEnded returns the reason for the end of a domain's process, which started at the given
	// time. It blocks until libvirt gives a reason for this end or ctx ends.
	WhyEnded(ctx context.Context, d tie.Domain, started host.Boottime) (vmfile.Reason, error)

	// Shutdown asks the guest to shut down. It does not wait for the shutdown. The error wraps
	// [ErrNoDomain] if libvirt does not run the domain in this process.
	Shutdown(ctx context.Context, d tie.Domain) error
}

// PodDirs reads and confirms the requests in the pods' directories, and publishes the state of
// node-level VMs there: see [poddir.Dirs].
type PodDirs interface {
	Touched(podUID string) (poddir.Touched, error)
	ConfirmStop(podUID string) error
	WriteVM(podUID string, data []byte) error
}

// Processes opens and identifies processes.
type Processes interface {
	// OpenHandle returns a handle of exactly this process, or [host.ErrGone] after its end. ended
	// is called once when the process ends, from another goroutine. A zombie has ended. ended is
	// not called after Close.
	OpenHandle(p host.Process, ended func()) (host.Handle, error)

	// Members lists the processes of a cgroup and of the cgroups below it. A missing cgroup has
	// none.
	Members(cgroup string) ([]host.Process, error)

	// Identify returns the process with this pid, or [host.ErrGone].
	Identify(pid int) (host.Process, error)

	// Arguments returns the command line up to some length, or [host.ErrGone]. It blocks while
	// the process keeps its memory locked.
	Arguments(p host.Process) ([]string, error)

	// KillCgroup kills all processes of a cgroup and of the cgroups below it.
	KillCgroup(cgroup string) error

	// Exists reports whether a cgroup exists.
	Exists(cgroup string) (bool, error)

	// PodCgroupExists reports whether the node has a cgroup of the pod. A pod without one has no
	// container.
	PodCgroupExists(podUID string) (bool, error)
}

// Store keeps ties for the next agent and for the fence, until the next boot.
type Store interface {
	Save(t tie.Tie) error
	Delete(containerID string) error
	Load() ([]tie.Tie, error)
}
