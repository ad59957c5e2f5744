package supervisor

import (
	"context"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// Tracked is a process that the kernel is known to run.
type Tracked struct {
	host.Process

	// Group is that of the registered cgroup that the process belongs to, by its
	// place or by its descent; 0: none.
	Group uint64

	// Bound says that it belongs to the group because [Tracker.Bind] said so of
	// it, or of its parent.
	Bound bool

	// Executable is the base name of the executed file, where that is an
	// emulator; otherwise it is empty.
	Executable string
}

// Tracker knows the processes of registered cgroups, and all emulators of the node.
// Its methods make local system calls, and may be called from several goroutines
// at once. Paths of cgroups are below the root of the hierarchy.
type Tracker interface {
	// Register has the processes of a cgroup, of those below it, and their
	// descendants known from now on as those of a group, which no other cgroup
	// gets until the node is booted again. It is one system call or two, for NRI
	// handlers; a cgroup that is registered already is no error.
	Register(cgroup string) (group uint64, err error)

	// Unregister forgets a group, whose cgroup may be gone.
	Unregister(group uint64) error

	// Bind adds a process and its future children to a group.
	Bind(p host.Process, group uint64) error

	// Watch has the end of a process told at once.
	Watch(p host.Process) error

	// Snapshot returns the processes that are known, those of all groups and
	// emulators anywhere. Some may have ended. complete is false while there may
	// be others: an emulator among them was told when it started, and its end was
	// not.
	Snapshot() (all []Tracked, complete bool, err error)

	// Rescan finds what was missed. It takes as long as a walk through all
	// tasks of the node.
	Rescan() error
}

// ProcessEvent is what a tracker tells of a process: it executes an emulator now, or it did
// and executes something else, without an Executable.
type ProcessEvent struct {
	Tracked
	Forked bool   // by an emulator, whose file it executes
	Ended  bool   // the last of its threads has; the process is gone a little later
	How    string // its exit code or signal, for people

	// At is when it has ended, which may be long ago: nobody was there to be told. 0:
	// that is not known.
	At host.Boottime
}

// Domains are those of the node's libvirt.
type Domains interface {
	// Running lists the domains that libvirt has noted as running. It may be
	// out of date: [Domains.RunBy] compares.
	Running() ([]tie.Domain, error)

	// RunBy reports whether a process with these arguments is the one that
	// libvirt has started for the domain.
	RunBy(d tie.Domain, args []string) bool

	// Shutdown asks the guest to shut down, and does not wait for it.
	Shutdown(ctx context.Context, d tie.Domain) error
}

// PodDirs is what pods say through their directories: see [poddir.Dirs].
type PodDirs interface {
	Touched(podUID string) (poddir.Touched, error)
	ConfirmStop(podUID string) error
}

// Processes holds on to processes.
type Processes interface {
	// OpenHandle returns a handle of exactly this process; [host.ErrGone] when it has
	// ended. ended is called once, from another goroutine, when it ends: a
	// zombie has ended. It is not called after Close.
	OpenHandle(p host.Process, ended func()) (host.Handle, error)

	// Members lists the processes of a cgroup and of those below it, none where it
	// is gone.
	Members(cgroup string) ([]host.Process, error)

	// Identify names the process that has the pid now, [host.ErrGone] when none has.
	Identify(pid int) (host.Process, error)

	// Arguments returns the command line, cut off at some length; [host.ErrGone]. It
	// may block for as long as the process keeps its memory locked.
	Arguments(p host.Process) ([]string, error)

	// KillCgroup kills all processes of a cgroup and of those below it.
	KillCgroup(cgroup string) error

	// Exists reports whether there is such a cgroup.
	Exists(cgroup string) (bool, error)
}

// Store keeps ties for an agent that comes after this one, and for the fence. A
// node that was booted again has none of them.
type Store interface {
	Save(t tie.Tie) error
	Delete(containerID string) error
	Load() ([]tie.Tie, error)
}
