package supervisor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// takes has somebody in the pod take requests, or not any more.
func (r *rig) takes(l launcher, takes bool) {
	r.SetStopHandler(l.Pod.UID, takes)
	synctest.Wait()
}

// askedFor fails unless the pod is asked, or not asked, for the end of its VM.
func (r *rig) askedFor(l launcher, want bool) *tie.ShutdownRequest {
	r.t.Helper()
	now, ok := r.config.Registry.Find(l.Container.ID)
	if !ok || (now.Stop != nil) != want {
		r.t.Fatalf("launcher %s: asked for %+v (known: %t), want %t", l.Pod.Name, now.Stop, ok, want)
	}
	return now.Stop
}

// TestPodIsAskedFirst: it has its grace period, and what it is told names nothing of the
// node.
func TestPodIsAskedFirst(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.qemu(l.cgroup)
		r.takes(l, true)
		r.askedFor(l, false)
		r.exit(l.owner, "killed by SIGKILL")
		r.is(l, agentapi.PhaseDraining, agentapi.VMStopping)
		r.told(agentapi.ReasonVMShutdown)
		if stop := r.askedFor(l, true); stop.Why != "the launcher is gone" || stop.Due != r.config.Clock.Now().Add(grace) {
			t.Errorf("asked for %+v", stop)
		}
		r.after(grace - time.Second)
		r.sent(vm)
		r.after(time.Second)
		r.sent(vm, "TERM")
		r.is(l, agentapi.PhaseDone)
	})
}

// TestPodIsAskedAfterARestart: the stage and its time are kept, and whoever took the
// request has a while to be back.
func TestPodIsAskedAfterARestart(t *testing.T) {
	for name, tt := range map[string]struct {
		back bool
		left time.Duration // until SIGTERM
	}{
		"is back": {true, grace - 4*time.Second},
		"is not":  {false, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", nil)
				vm := r.qemu(l.cgroup)
				r.takes(l, true)
				r.exit(l.owner, "killed by SIGKILL")
				r.stop()
				r.after(4 * time.Second)
				r.start()
				r.askedFor(l, true)
				if tt.back {
					r.takes(l, true)
				}
				r.after(tt.left - time.Second)
				r.sent(vm)
				r.after(time.Second)
				r.sent(vm, "TERM")
			})
		})
	}
}

// TestPodIsAskedForWhatHappenedInAnAbsence: the taker of the agent before is waited for.
func TestPodIsAskedForWhatHappenedInAnAbsence(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.qemu(l.cgroup)
		r.takes(l, true)
		r.stop()
		r.kernel.Exit(l.owner.PID)
		r.start()
		r.takes(l, true)
		r.askedFor(l, true)
		r.after(grace - time.Second)
		r.sent(vm)
		r.after(time.Second)
		r.sent(vm, "TERM")
	})
}

// TestFenceAsksNoPod: what starts under it is none of a pod's, what the agent has begun
// has its time.
func TestFenceAsksNoPod(t *testing.T) {
	for name, begun := range map[string]bool{"begun": true, "not begun": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", nil)
				vm := r.qemu(l.cgroup)
				r.takes(l, true)
				if begun {
					r.exit(l.owner, "killed by SIGKILL")
				}
				r.stop()
				r.kernel.Exit(l.owner.PID)
				r.config.Terms.ProofOnly = true
				r.config.Registry = registry.New()
				r.start()
				r.after(time.Second)
				if begun {
					r.after(grace - 2*time.Second)
					r.sent(vm)
					r.after(time.Second)
				}
				r.sent(vm, "TERM")
			})
		})
	}
}

// TestPodIsNotAskedBesideAnotherLauncher: it would end that launcher's VM.
func TestPodIsNotAskedBesideAnotherLauncher(t *testing.T) {
	again := func(r *rig) launcher {
		return r.launch("again", func(l *registry.Launcher) { l.Pod.UID, l.Pod.Name = "uid-vm", "vm" })
	}
	for name, test := range map[string]func(r *rig, l launcher){
		"that was there": func(r *rig, l launcher) {
			again(r)
			r.exit(l.owner, "killed by SIGKILL")
		},
		"that comes": func(r *rig, l launcher) {
			r.exit(l.owner, "killed by SIGKILL")
			r.askedFor(l, true)
			again(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", nil)
				r.kernel.Ignores = func(int, string) bool { return true }
				vm := r.qemu(l.cgroup)
				r.takes(l, true)
				test(r, l)
				r.sent(vm, "TERM")
			})
		})
	}
}

// TestTheOnlyLauncherLeftIsAsked: who was there before has its VM ended, and the next one
// is the pod's.
func TestTheOnlyLauncherLeftIsAsked(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		first := r.launch("vm", nil)
		r.takes(first, true)
		second := r.launch("again", func(l *registry.Launcher) { l.Pod.UID = "uid-vm" })
		vm := r.qemu(second.cgroup)
		r.exit(first.owner, "exit code 0")
		r.exit(second.owner, "exit code 0")
		r.sent(vm)
		r.askedFor(second, true)
		r.exit(vm, "exit code 0")
		r.is(second, agentapi.PhaseDone)
	})
}

// TestNodeLevelPodIsAsked: libvirt is asked only when nobody in the pod is left.
func TestNodeLevelPodIsAsked(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		asked := 0
		r.domains.OnShutdown = func(tie.Domain) error { asked++; return nil }
		l := r.launch("vm", declares)
		vm := r.domain("/machine/x")
		r.takes(l, true)
		r.exit(l.owner, "killed by SIGKILL")
		r.after(10 * time.Second)
		r.askedFor(l, true)
		if asked != 0 {
			t.Fatal("libvirt was asked, although the pod is")
		}
		r.takes(l, false)
		r.after(2 * time.Second)
		r.askedFor(l, false)
		if asked != 1 {
			t.Fatalf("libvirt was asked %d times", asked)
		}
		r.takes(l, true) // and is not asked any more
		r.askedFor(l, false)
		r.after(grace - 12*time.Second)
		r.sent(vm, "TERM")
	})
}

// TestPodThatAsksByItself: whoever is there is told how much time is left.
func TestPodThatAsksByItself(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.qemu(l.cgroup)
		r.ask(l)
		r.askedFor(l, false)
		r.after(time.Second)
		r.takes(l, true)
		if stop := r.askedFor(l, true); stop.Due != r.config.Clock.Now().Add(grace-time.Second) {
			t.Errorf("asked for %+v", stop)
		}
	})
}

// TestTakerBeforeItsLauncher: an agent that has just started may hear of it first.
func TestTakerBeforeItsLauncher(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.SetStopHandler("uid-vm", true) // before the runtime has told of its launcher
		l := r.launch("vm", nil)
		vm := r.qemu(l.cgroup)
		r.exit(l.owner, "killed by SIGKILL")
		r.askedFor(l, true)
		r.takes(l, false)
		r.after(2 * time.Second)
		r.sent(vm, "TERM")
	})
}

// TestLauncherThatNeverStarted: it is no reason not to ask the pod of another, once it
// is gone.
func TestLauncherThatNeverStarted(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.Reconciled()
		l := r.launch("vm", nil)
		r.qemu(l.cgroup)
		r.takes(l, true)
		second := l.Launcher
		second.Container.ID, second.Container.PID, second.State = "id-second", 0, agentapi.StateCreated
		r.config.Registry.Put(second)
		if err := r.Register(second, ""); err != nil {
			t.Fatal(err)
		}
		r.after(time.Second)
		r.config.Registry.RemoveContainer("id-second")
		r.after(5 * time.Minute)
		r.exit(l.owner, "SIGKILL")
		r.askedFor(l, true)
	})
}

// TestReplacedLauncherLeavesItsVM: what the pod is asked for on behalf of a launcher that
// has a successor can be found by the pod.
func TestReplacedLauncherLeavesItsVM(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.Reconciled()
		l := r.launch("vm", declares)
		r.domain("/machine/x")
		r.takes(l, true)
		r.leasePod(l, 2*time.Minute, 1)
		r.exit(l.owner, "SIGKILL")
		r.config.Registry.SetState(l.Container.ID, agentapi.StateStopped, 0)
		again := r.launch("vm", func(l *registry.Launcher) { declares(l); l.Container.ID = "id-again" })
		r.after(10 * time.Second)
		r.exit(again.owner, "SIGKILL")
		r.config.Registry.SetState(again.Container.ID, agentapi.StateStopped, 0)
		r.after(2 * time.Minute)
		if stop, ok := r.config.Registry.StopOf(l.Pod.UID); !ok || stop.Due == 0 {
			t.Errorf("the pod finds %+v, %t", stop, ok)
		}
	})
}
