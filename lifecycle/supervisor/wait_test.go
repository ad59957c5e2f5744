package supervisor_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// faultyNode is a node whose tracker can be full and whose handles can fail.
type faultyNode struct {
	handles failingOpenHandle
	tracker fullTracker
}

func (f *faultyNode) install(c *supervisor.Config) {
	f.tracker.hasRoom.Store(true)
	f.handles.Processes, c.Processes = c.Processes, &f.handles
	f.tracker.Tracker, c.Tracker = c.Tracker, &f.tracker
}

// waits returns the messages of the Events about waiting stops of a launcher.
func (r *rig) waits(l launcher) (messages []string) {
	for _, e := range r.recorder.Events() {
		if e.Reason == agentapi.ReasonVMStuck && e.Pod.UID == l.Pod.UID {
			messages = append(messages, e.Message)
		}
	}
	return messages
}

// A stop that waits for a fact has an Event with the cause. prepare makes a launcher with a stop
// that waits, and returns the launcher.
func TestWaitIsReported(t *testing.T) {
	for cause, prepare := range map[string]func(*rig, *faultyNode) launcher{
		"which the agent cannot watch": func(r *rig, f *faultyNode) launcher {
			l := r.launch("vm", nil)
			f.handles.fail.Store(true)
			r.startQEMU(l.cgroup)
			r.requestStop(l)
			return l
		},
		"the process of domain one, which the agent cannot watch": func(
			r *rig, f *faultyNode,
		) launcher {
			l := r.launch("vm", withDomain)
			f.handles.fail.Store(true)
			r.startDomain("/machine/x")
			r.requestStop(l)
			return l
		},
		"the container runtime": func(r *rig, _ *faultyNode) launcher {
			l := r.launch("vm", withDomain)
			r.requestStopUnseen(l)
			r.stop()
			r.kernel.Exit(l.process.PID)
			r.start()
			return l
		},
		"because its domain is unknown": func(r *rig, _ *faultyNode) launcher {
			l := r.launch("ancestor", nil)
			r.launch("declarer", withDomain)
			r.domains.Fail(errNoAnswer)
			r.executeInherited(r.inheritGroup(l, "/machine/x"))
			r.exit(l.process, "SIGKILL")
			return l
		},
		"processes of the launcher that the tracker does not know": func(
			r *rig, _ *faultyNode,
		) launcher {
			l := r.launch("vm", nil)
			r.tracker.Hide(r.startProcess(l.cgroup), true)
			r.requestStop(l)
			return l
		},
		"the launcher's cgroup": func(r *rig, _ *faultyNode) launcher {
			l := launcher{}
			l.Pod = agentapi.PodRef{Namespace: "vms", Name: "created", UID: "uid-created"}
			l.Container = agentapi.ContainerRef{Name: "compute", ID: "id-created"}
			l.State = agentapi.StateCreated
			r.config.Registry.Put(l.Launcher)
			if err := r.Register(l.Launcher, ""); err != nil {
				r.t.Fatal(err)
			}
			r.requestStop(l)
			return l
		},
		"the VM of another launcher of the pod": func(r *rig, _ *faultyNode) launcher {
			first := r.launch("vm", nil)
			r.kernel.Ignores = func(int, string) bool { return true }
			r.startQEMU(first.cgroup)
			second := r.launch("again", func(l *registry.Launcher) { l.Pod.UID = "uid-vm" })
			r.requestStop(second)
			return second
		},
		"a scan has failed": func(r *rig, _ *faultyNode) launcher {
			l := r.launch("vm", nil)
			r.tracker.Fail(errNoAnswer)
			r.requestStop(l)
			return l
		},
	} {
		t.Run(cause, func(t *testing.T) {
			f := &faultyNode{}
			inBubble(t, f.install, func(r *rig) {
				l := prepare(r, f)
				r.advance(termPeriod / 2)
				if got := r.waits(l); len(got) > 0 {
					t.Errorf("Events %q before an orderly end", got)
				}
				r.advance(2 * time.Minute)
				got := strings.Join(r.waits(l), "\n")
				if !strings.Contains(got, cause) {
					t.Errorf("Events %q, want one with %q", got, cause)
				}
			})
		})
	}
}

// requestStopUnseen writes a stop request that the supervisor has not read yet.
func (r *rig) requestStopUnseen(l launcher) {
	r.podDirs.Touch(l.Pod.UID, func(s *poddir.Touched) { s.StopRequested = true })
}

// A second wait counts from its own start.
func TestSecondWait(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		hidden := r.startProcess(l.cgroup)
		r.tracker.Hide(hidden, true)
		r.requestStop(l)
		r.advance(termPeriod / 2)
		r.tracker.Hide(hidden, false)
		r.ScanLauncher(l.Container.ID)
		r.advance(time.Second)
		if r.stopRequested(l) {
			t.Fatal("stop not confirmed")
		}
		r.tracker.Hide(hidden, true)
		r.requestStop(l)
		r.advance(termPeriod - time.Second)
		r.ScanLauncher(l.Container.ID)
		r.advance(0)
		r.expectWait(false)
	})
}

// An Event names each cause of a wait once.
func TestCauseOfAWaitChanges(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", withDomain)
		r.domains.Fail(errors.New("no answer"))
		r.requestStop(l)
		r.advance(5 * time.Minute)
		r.domains.Fail(nil)
		r.domains.Break(tie.Domain{Name: "one"})
		r.advance(5 * time.Minute)
		if got := r.waits(l); len(got) != 2 || got[0] == got[1] {
			t.Errorf("Events %q, want one for each cause", got)
		}
	})
}
