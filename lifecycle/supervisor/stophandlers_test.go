package supervisor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// setHandler connects or disconnects the pod's stop handler.
func (r *rig) connected(l launcher, connected bool) {
	r.SetStopHandler(l.Pod.UID, connected)
	synctest.Wait()
}

// expectShutdownRequest fails the test unless the pod has a shutdown request, or has none.
func (r *rig) expectShutdownRequest(l launcher, want bool) *tie.ShutdownRequest {
	r.t.Helper()
	found, ok := r.config.Registry.Find(l.Container.ID)
	if !ok || (found.Stop != nil) != want {
		r.t.Fatalf("launcher %s: shutdown request %+v (registered: %t), want one: %t",
			l.Pod.Name, found.Stop, ok, want)
	}
	return found.Stop
}

// The stop handler has the whole grace period. Its request names no launcher of the node.
func TestStopHandlerComesFirst(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		r.connected(l, true)
		r.expectShutdownRequest(l, false)
		r.exit(l.process, "killed by SIGKILL")
		r.expectPhase(l, agentapi.PhaseDraining, agentapi.VMStopping)
		r.expectEvent(agentapi.ReasonVMShutdown)
		due := r.config.Clock.Now().Add(gracePeriod)
		stop := r.expectShutdownRequest(l, true)
		if stop.Why != "the launcher is gone" || stop.Due != due {
			t.Errorf("shutdown request %+v", stop)
		}
		r.advance(gracePeriod - time.Second)
		r.expectSignals(vm)
		r.advance(time.Second)
		r.expectSignals(vm, "TERM")
		r.expectPhase(l, agentapi.PhaseDone)
	})
}

// Stage and time of the stop survive the restart. The stop handler has some time to reconnect.
func TestStopHandlerAfterARestart(t *testing.T) {
	for name, tt := range map[string]struct {
		back bool
		left time.Duration // until SIGTERM
	}{
		"reconnected":     {true, gracePeriod - 4*time.Second},
		"not reconnected": {false, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", nil)
				vm := r.startQEMU(l.cgroup)
				r.connected(l, true)
				r.exit(l.process, "killed by SIGKILL")
				r.stop()
				r.advance(4 * time.Second)
				r.start()
				r.expectShutdownRequest(l, true)
				if tt.back {
					r.connected(l, true)
				}
				r.advance(tt.left - time.Second)
				r.expectSignals(vm)
				r.advance(time.Second)
				r.expectSignals(vm, "TERM")
			})
		})
	}
}

func TestLauncherEndsInAnAbsenceWithStopHandler(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		r.connected(l, true)
		r.stop()
		r.kernel.Exit(l.process.PID)
		r.start()
		r.connected(l, true)
		r.expectShutdownRequest(l, true)
		r.advance(gracePeriod - time.Second)
		r.expectSignals(vm)
		r.advance(time.Second)
		r.expectSignals(vm, "TERM")
	})
}

// A request that the agent has sent before keeps its time.
func TestFenceUsesNoStopHandler(t *testing.T) {
	for name, stopping := range map[string]bool{"stop in progress": true, "new stop": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", nil)
				vm := r.startQEMU(l.cgroup)
				r.connected(l, true)
				if stopping {
					r.exit(l.process, "killed by SIGKILL")
				}
				r.stop()
				r.kernel.Exit(l.process.PID)
				r.config.Terms.ProofOnly = true
				r.config.Registry = registry.New()
				r.start()
				r.advance(time.Second)
				if stopping {
					r.advance(gracePeriod - 2*time.Second)
					r.expectSignals(vm)
					r.advance(time.Second)
				}
				r.expectSignals(vm, "TERM")
			})
		})
	}
}

// A stop handler would shut down the other launcher's VM.
func TestNoStopHandlerBesideAnotherLauncher(t *testing.T) {
	launchAgain := func(r *rig) launcher {
		return r.launch("restarted", func(l *registry.Launcher) {
			l.Pod.UID, l.Pod.Name = "uid-vm", "vm"
		})
	}
	for name, test := range map[string]func(r *rig, l launcher){
		"present before": func(r *rig, l launcher) {
			launchAgain(r)
			r.exit(l.process, "killed by SIGKILL")
		},
		"started later": func(r *rig, l launcher) {
			r.exit(l.process, "killed by SIGKILL")
			r.expectShutdownRequest(l, true)
			launchAgain(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", nil)
				r.kernel.Ignores = func(int, string) bool { return true }
				vm := r.startQEMU(l.cgroup)
				r.connected(l, true)
				test(r, l)
				r.expectSignals(vm, "TERM")
			})
		})
	}
}

// The VM of the first launcher ends with it. Afterwards the request can only mean the second one.
func TestStopHandlerForTheLastLauncher(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		first := r.launch("vm", nil)
		r.connected(first, true)
		second := r.launch("restarted", func(l *registry.Launcher) { l.Pod.UID = "uid-vm" })
		vm := r.startQEMU(second.cgroup)
		r.exit(first.process, "exit code 0")
		r.exit(second.process, "exit code 0")
		r.expectSignals(vm)
		r.expectShutdownRequest(second, true)
		r.exit(vm, "exit code 0")
		r.expectPhase(second, agentapi.PhaseDone)
	})
}

// The agent uses libvirt only after the stop handler has left the pod.
func TestStopHandlerBeforeLibvirt(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		shutdowns := 0
		r.domains.OnShutdown = func(tie.Domain) error { shutdowns++; return nil }
		l := r.launch("vm", withDomain)
		vm := r.startDomain("/machine/x")
		r.connected(l, true)
		r.exit(l.process, "killed by SIGKILL")
		r.advance(10 * time.Second)
		r.expectShutdownRequest(l, true)
		if shutdowns != 0 {
			t.Fatal("shutdown by libvirt although the pod has a stop handler")
		}
		r.connected(l, false)
		r.advance(2 * time.Second)
		r.expectShutdownRequest(l, false)
		if shutdowns != 1 {
			t.Fatalf("%d shutdowns by libvirt, want 1", shutdowns)
		}
		r.connected(l, true) // gets no second request
		r.expectShutdownRequest(l, false)
		r.advance(gracePeriod - 12*time.Second)
		r.expectSignals(vm, "TERM")
	})
}

// A stop handler that connects late gets the rest of the grace period.
func TestStopHandlerAfterStopRequest(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.startQEMU(l.cgroup)
		r.requestStop(l)
		r.expectShutdownRequest(l, false)
		r.advance(time.Second)
		r.connected(l, true)
		due := r.config.Clock.Now().Add(gracePeriod - time.Second)
		if stop := r.expectShutdownRequest(l, true); stop.Due != due {
			t.Errorf("shutdown request %+v", stop)
		}
	})
}

// After a start of the agent, the stop handler may connect before the runtime lists its launcher.
func TestStopHandlerBeforeItsLauncher(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.SetStopHandler("uid-vm", true)
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		r.exit(l.process, "killed by SIGKILL")
		r.expectShutdownRequest(l, true)
		r.connected(l, false)
		r.advance(2 * time.Second)
		r.expectSignals(vm, "TERM")
	})
}

// A container that never started does not block the stop handler of the other launcher.
func TestStopHandlerBesideUnstartedLauncher(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.Reconciled()
		l := r.launch("vm", nil)
		r.startQEMU(l.cgroup)
		r.connected(l, true)
		second := l.Launcher
		second.Container.ID, second.Container.PID, second.State = "id-second", 0,
			agentapi.StateCreated
		r.config.Registry.Put(second)
		if err := r.Register(second, ""); err != nil {
			t.Fatal(err)
		}
		r.advance(time.Second)
		r.config.Registry.RemoveContainer("id-second")
		r.advance(5 * time.Minute)
		r.exit(l.process, "SIGKILL")
		r.expectShutdownRequest(l, true)
	})
}

// The pod finds the shutdown request of a launcher that another container has replaced.
func TestShutdownRequestForAReplacedLauncher(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.Reconciled()
		l := r.launch("vm", withDomain)
		r.startDomain("/machine/x")
		r.connected(l, true)
		r.leasePod(l, 2*time.Minute, 1)
		r.exit(l.process, "SIGKILL")
		r.config.Registry.SetState(l.Container.ID, agentapi.StateStopped, 0)
		restarted := r.launch("vm", func(l *registry.Launcher) {
			withDomain(l)
			l.Container.ID = "id-again"
		})
		r.advance(10 * time.Second)
		r.exit(restarted.process, "SIGKILL")
		r.config.Registry.SetState(restarted.Container.ID, agentapi.StateStopped, 0)
		r.advance(2 * time.Minute)
		if stop, ok := r.config.Registry.StopOf(l.Pod.UID); !ok || stop.Due == 0 {
			t.Errorf("shutdown request of the pod: %+v, %t", stop, ok)
		}
	})
}
