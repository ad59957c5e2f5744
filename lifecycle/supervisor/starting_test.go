package supervisor_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// The tests of this file are about domains that libvirt starts around the end of their launcher.

// forkDomain starts libvirt's child process for the domain of [withDomain].
func (r *rig) forkDomain() host.Process {
	vm := r.startProcess("/machine/x")
	r.kernel.SetArguments(vm.PID, "/usr/sbin/virtqemud", "--timeout", "120")
	r.advance(time.Second)
	return vm
}

// recordDomain lets libvirt record the pid of the domain.
func (r *rig) recordDomain(vm host.Process) {
	r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
	r.DomainsChanged()
	r.advance(time.Second)
}

// executeEmulator lets the process execute the emulator.
func (r *rig) executeEmulator(vm host.Process) {
	r.kernel.SetArguments(vm.PID, "qemu-system-x86_64", "-uuid", domainUUID)
	r.ProcessEvent(r.tracker.Exec(vm, "qemu-system-x86_64"))
	r.advance(time.Second)
}

func TestLauncherEndsWhileItsDomainStarts(t *testing.T) {
	for name, end := range map[string]func(*rig, launcher, host.Process){
		"after libvirt has recorded it": func(r *rig, l launcher, vm host.Process) {
			r.recordDomain(vm)
			r.exit(l.process, "SIGKILL")
			r.advance(5 * time.Minute)
		},
		"before libvirt records it": func(r *rig, l launcher, vm host.Process) {
			r.exit(l.process, "SIGKILL")
			r.advance(time.Second)
			r.recordDomain(vm)
		},
		"before libvirt records it, emulator late": func(r *rig, l launcher, vm host.Process) {
			r.exit(l.process, "SIGKILL")
			r.advance(time.Second)
			r.recordDomain(vm)
			r.advance(5 * time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", withDomain)
				vm := r.forkDomain()
				end(r, l, vm)
				r.executeEmulator(vm)
				r.advance(gracePeriod + 2*termPeriod)
				if r.alive(vm) || r.HasPod(l.Pod.UID) {
					t.Errorf("VM alive: %t, tie kept: %t", r.alive(vm), r.HasPod(l.Pod.UID))
				}
			})
		})
	}
}

func TestStopRequestWhileTheDomainStarts(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", withDomain)
		vm := r.forkDomain()
		r.recordDomain(vm)
		r.requestStop(l)
		r.advance(5 * time.Minute)
		if !r.stopRequested(l) {
			t.Fatal("stop confirmed while libvirt starts the VM")
		}
		r.executeEmulator(vm)
		r.advance(gracePeriod + 2*termPeriod)
		if r.alive(vm) || r.stopRequested(l) {
			t.Errorf("VM alive: %t, stop request pending: %t", r.alive(vm), r.stopRequested(l))
		}
	})
}

// A failed start does not delay the launcher's end.
func TestDomainFailsToStart(t *testing.T) {
	for name, fail := range map[string]func(*rig, host.Process){
		"process ended": func(r *rig, vm host.Process) { r.kernel.Exit(vm.PID) },
		"zombie":        func(r *rig, vm host.Process) { r.kernel.SetArguments(vm.PID) },
		"no record":     func(r *rig, _ host.Process) { r.domains.Forget(domainUUID) },
		"pid reused by a pod": func(r *rig, vm host.Process) {
			r.kernel.Start(vm.PID, r.launch("unrelated", nil).cgroup, host.Rlimit{})
			r.kernel.SetArguments(vm.PID, "sleep")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l, requesting := r.launch("vm", withDomain), r.launch("asks", withDomain)
				vm := r.forkDomain()
				r.recordDomain(vm)
				r.requestStop(requesting)
				r.requestStop(l)
				r.exit(l.process, "SIGKILL")
				r.advance(time.Second)
				if !r.HasPod(l.Pod.UID) {
					t.Fatal("the tie was dropped while libvirt starts the VM")
				}
				fail(r, vm)
				r.DomainsChanged()
				r.advance(time.Minute)
				if r.HasPod(l.Pod.UID) || r.stopRequested(requesting) {
					t.Errorf("tie kept: %t, stop request of the other pod pending: %t",
						r.HasPod(l.Pod.UID), r.stopRequested(requesting))
				}
			})
		})
	}
}

// The domain belongs to no launcher. An Event reports it while the ended launcher has a tie.
func TestDomainStartsAfterTheLauncherEnds(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.kernel.Ignores = func(int, string) bool { return true }
		l := r.launch("vm", withDomain)
		r.startQEMU(l.cgroup)
		r.exit(l.process, "SIGKILL")
		r.advance(2 * time.Second)
		vm := r.startDomain("/machine/x")
		r.advance(5 * time.Minute)
		r.expectSignals(vm)
		r.expectUnattendedEvent(vm)
	})
}

// The result does not depend on whether the agent has observed the launcher's end.
func TestPolicyStopsDomainStartedLate(t *testing.T) {
	for name, unobserved := range map[string]bool{"end observed": false, "end not observed": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, withAllStops, func(r *rig) {
				l := r.launch("vm", withDomain)
				inside := r.startQEMU(l.cgroup)
				r.kernel.Ignores = func(pid int, _ string) bool { return pid == inside.PID }
				if unobserved {
					r.advance(time.Minute)
					r.stop()
					r.advance(time.Minute)
					r.kernel.Exit(l.process.PID)
					r.config.Registry = registry.New()
					r.start()
					r.Reconciled()
				} else {
					r.exit(l.process, "SIGKILL")
				}
				r.advance(2 * time.Second)
				vm := r.startDomain("/machine/x")
				r.advance(5 * time.Minute)
				r.expectUnattendedEvent(vm)
				if r.alive(vm) {
					t.Error("the VM was not stopped")
				}
			})
		})
	}
}

// expectUnattendedEvent fails the test unless exactly one VMUnattended Event names the process.
func (r *rig) expectUnattendedEvent(p host.Process) {
	r.t.Helper()
	events := slices.DeleteFunc(r.recorder.Events(), func(e agentapi.Event) bool {
		return e.Reason != agentapi.ReasonVMUnattended || e.Container.PID != p.PID
	})
	if len(events) != 1 {
		r.t.Errorf("%d VMUnattended Events for process %d, want 1: %v",
			len(events), p.PID, r.recorder.Reasons())
	}
}

// Agent and launcher end, and libvirt starts the domain. The process belongs to the launcher only
// if the launcher was certainly alive at the start of the process. A late event of the tracker can
// prove that.
func TestDomainStartedInAnAbsence(t *testing.T) {
	for name, tt := range map[string]struct {
		forkedBefore, endKnown, declaredTwice bool
		stopped                               bool
	}{
		"before the absence":                 {forkedBefore: true, stopped: true},
		"also declared by another pod":       {forkedBefore: true, declaredTwice: true},
		"in the absence":                     {},
		"in the absence, before a known end": {endKnown: true, stopped: true},
		"in the absence, by another pod":     {declaredTwice: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", withDomain)
				var vm host.Process
				if tt.forkedBefore {
					vm = r.forkDomain()
				}
				r.stop()
				if !tt.forkedBefore {
					vm = r.forkDomain()
				}
				r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
				r.executeEmulator(vm)
				ended := supervisor.ProcessEvent{Ended: true, At: r.config.Clock.Now()}
				ended.Process = l.process
				r.kernel.Exit(l.process.PID)
				r.advance(time.Second)
				r.start()
				if tt.endKnown {
					r.ProcessEvent(ended)
				}
				r.advance(time.Minute)
				r.expectSignals(vm)
				if !r.HasPod(l.Pod.UID) {
					t.Fatal("the tie was dropped before the VM process was assigned")
				}
				if tt.declaredTwice {
					r.expectPhase(r.launch("other", withDomain), agentapi.PhaseActive,
						agentapi.VMRunning)
				}
				r.Reconciled()
				r.advance(gracePeriod + 2*termPeriod)
				if r.alive(vm) == tt.stopped || r.HasPod(l.Pod.UID) {
					t.Errorf("VM alive: %t, tie kept: %t", r.alive(vm), r.HasPod(l.Pod.UID))
				}
				if !tt.stopped && !tt.declaredTwice {
					r.expectUnattendedEvent(vm)
				}
			})
		})
	}
}

// Agent and launcher end, and an hour later an operator starts the domain.
func TestDomainStartedByHand(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", withDomain)
		r.stop()
		r.kernel.Exit(l.process.PID)
		r.advance(time.Hour)
		vm := r.startDomain("/machine/x")
		r.start()
		r.Reconciled()
		r.advance(gracePeriod + 2*termPeriod)
		r.expectSignals(vm)
		r.expectUnattendedEvent(vm)
	})
}

// The agent is suspended instead of stopped.
func TestDomainStartedByHandWhileSuspended(t *testing.T) {
	var suspended atomic.Int64
	change := func(c *supervisor.Config) { c.Clock = suspendableClock{c.Clock, &suspended} }
	inBubble(t, change, func(r *rig) {
		r.kernel.Clock = r.config.Clock
		l := r.launch("vm", withDomain)
		suspended.Store(int64(time.Hour))
		vm := r.startProcess("/machine/x")
		suspended.Add(int64(time.Minute))
		r.kernel.Exit(l.process.PID)
		r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
		r.executeEmulator(vm)
		r.Reconciled()
		r.advance(gracePeriod + 2*termPeriod)
		r.expectSignals(vm)
		r.expectUnattendedEvent(vm)
	})
}

// The agent hangs. The fence has recorded that the launcher was alive when the domain started.
func TestFenceObservationAssignsDomain(t *testing.T) {
	for name, c := range map[string]struct {
		observe func(tie *tie.Tie, now host.Boottime)
		lives   bool // the launcher
		stopped bool // its VM
	}{
		"launcher alive": {
			observe: func(tie *tie.Tie, now host.Boottime) { tie.AliveAt = now },
			stopped: true,
		},
		"launcher ended":                        {observe: observeEnd, stopped: true},
		"launcher ended, and its process lives": {observe: observeEnd, lives: true},
		"another process of the container alive": {
			observe: func(tie *tie.Tie, now host.Boottime) {
				tie.AliveAt, tie.LauncherProcess = now, &host.Process{PID: 7, StartTime: 1}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var suspended, absences atomic.Int64
			change := func(c *supervisor.Config) {
				c.Clock = suspendableClock{c.Clock, &suspended}
				c.AfterAbsence = func(context.Context) { absences.Add(1) }
			}
			inBubble(t, change, func(r *rig) {
				r.kernel.Clock = r.config.Clock
				l := r.launch("vm", withDomain)
				suspended.Store(int64(time.Minute))
				vm := r.startProcess("/machine/x")
				suspended.Add(int64(time.Second))
				r.storeFenceObservation(l, c.observe)
				if !c.lives {
					r.kernel.Exit(l.process.PID)
				}
				suspended.Add(int64(time.Minute))
				r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
				r.executeEmulator(vm)
				r.Reconciled()
				r.advance(gracePeriod + 2*termPeriod)
				if r.alive(vm) == c.stopped || absences.Load() == 0 {
					t.Errorf("VM alive: %t, %d calls of AfterAbsence", r.alive(vm), absences.Load())
				}
			})
		})
	}
}

// observeEnd is an observation of the launcher's end.
func observeEnd(tie *tie.Tie, now host.Boottime) {
	tie.LauncherGone, tie.LauncherGoneAt = "its first process has ended", now
}

// storeFenceObservation changes a stored tie as the fence does.
func (r *rig) storeFenceObservation(l launcher, observe func(*tie.Tie, host.Boottime)) {
	r.t.Helper()
	ties, err := r.store.Load()
	if err != nil || len(ties) != 1 || ties[0].Launcher.Container.ID != l.Container.ID {
		r.t.Fatalf("the store has %+v, %v", ties, err)
	}
	observe(&ties[0], r.config.Clock.Now())
	if err := r.store.Save(ties[0]); err != nil {
		r.t.Fatal(err)
	}
}

// An agent that is killed leaves a recent AliveAt in the store.
func TestAliveAtIsStored(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l, plain := r.launch("vm", withDomain), r.launch("plain", nil)
		r.advance(time.Hour)
		ties, err := r.store.Load()
		if err != nil || len(ties) != 2 {
			t.Fatalf("ties: %+v, %v", ties, err)
		}
		for _, tie := range ties {
			age := r.config.Clock.Now().Sub(tie.AliveAt)
			if tie.Launcher.Pod.UID == l.Pod.UID && age > 10*time.Second {
				t.Errorf("AliveAt is %v old, want at most 10s", age)
			}
			if tie.Launcher.Pod.UID == plain.Pod.UID && tie.AliveAt != 0 {
				t.Error("AliveAt is set for a launcher without a domain")
			}
		}
	})
}

// libvirt identifies a domain by its UUID. Another process may run the domain now.
func TestNoShutdownOfAnotherVM(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		shutdowns := 0
		r.domains.OnShutdown = func(tie.Domain) error { shutdowns++; return nil }
		l := r.launch("vm", withDomain)
		vm := r.startDomain("/machine/x")
		r.domains.Forget(domainUUID)
		other := r.startProcess("/machine/y")
		r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: other.PID})
		r.exit(l.process, "SIGKILL")
		r.advance(0)
		r.expectSignals(vm, "TERM")
		if shutdowns != 0 {
			t.Error("the agent has requested a shutdown of another VM's guest")
		}
	})
}
