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

// The tests of this file are of domains that libvirt starts while their launcher ends.

// forks has libvirt make a process for the domain that launchers declare.
func (r *rig) forks() host.Process {
	vm := r.process("/machine/x")
	r.kernel.SetArguments(vm.PID, "/usr/sbin/virtqemud", "--timeout", "120")
	r.after(time.Second)
	return vm
}

// notes has libvirt note its pid.
func (r *rig) notes(vm host.Process) {
	r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
	r.DomainsChanged()
	r.after(time.Second)
}

// executes has it execute the emulator.
func (r *rig) executes(vm host.Process) {
	r.kernel.SetArguments(vm.PID, "qemu-system-x86_64", "-uuid", domainUUID)
	r.ProcessEvent(r.tracker.Exec(vm, "qemu-system-x86_64"))
	r.after(time.Second)
}

func TestLauncherEndsWhileItsDomainStarts(t *testing.T) {
	for name, end := range map[string]func(*rig, launcher, host.Process){
		"after libvirt has noted it": func(r *rig, l launcher, vm host.Process) {
			r.notes(vm)
			r.exit(l.owner, "SIGKILL")
			r.after(5 * time.Minute)
		},
		"before libvirt notes it": func(r *rig, l launcher, vm host.Process) {
			r.exit(l.owner, "SIGKILL")
			r.after(time.Second)
			r.notes(vm)
		},
		"before libvirt notes it, and that takes its time": func(r *rig, l launcher, vm host.Process) {
			r.exit(l.owner, "SIGKILL")
			r.after(time.Second)
			r.notes(vm)
			r.after(5 * time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", declares)
				vm := r.forks()
				end(r, l, vm)
				r.executes(vm)
				r.after(grace + 2*term)
				if r.lives(vm) || r.HasPod(l.Pod.UID) {
					t.Errorf("VM lives: %t, its pod is known: %t", r.lives(vm), r.HasPod(l.Pod.UID))
				}
			})
		})
	}
}

func TestPodAsksWhileItsDomainStarts(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", declares)
		vm := r.forks()
		r.notes(vm)
		r.ask(l)
		r.after(5 * time.Minute)
		if !r.stopAsked(l) {
			t.Fatal("confirmed while libvirt starts the VM")
		}
		r.executes(vm)
		r.after(grace + 2*term)
		if r.lives(vm) || r.stopAsked(l) {
			t.Errorf("VM lives: %t, stop asked: %t", r.lives(vm), r.stopAsked(l))
		}
	})
}

// TestDomainThatFailsToStart: nobody waits for it.
func TestDomainThatFailsToStart(t *testing.T) {
	for name, fail := range map[string]func(*rig, host.Process){
		"its process has ended": func(r *rig, vm host.Process) { r.kernel.Exit(vm.PID) },
		"it is a zombie":        func(r *rig, vm host.Process) { r.kernel.SetArguments(vm.PID) },
		"libvirt forgets it":    func(r *rig, _ host.Process) { r.domains.Forget(domainUUID) },
		"a pod has its pid": func(r *rig, vm host.Process) {
			r.kernel.Start(vm.PID, r.launch("stranger", nil).cgroup, host.Rlimit{})
			r.kernel.SetArguments(vm.PID, "sleep")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l, asks := r.launch("vm", declares), r.launch("asks", declares)
				vm := r.forks()
				r.notes(vm)
				r.ask(asks)
				r.ask(l)
				r.exit(l.owner, "SIGKILL")
				r.after(time.Second)
				if !r.HasPod(l.Pod.UID) {
					t.Fatal("the launcher is over while libvirt starts its VM")
				}
				fail(r, vm)
				r.DomainsChanged()
				r.after(time.Minute)
				if r.HasPod(l.Pod.UID) || r.stopAsked(asks) {
					t.Errorf("its pod is known: %t, another's stop is not confirmed: %t", r.HasPod(l.Pod.UID), r.stopAsked(asks))
				}
			})
		})
	}
}

// TestDomainThatStartsAfterTheEnd: it is nobody's, and told of as long as anybody can.
func TestDomainThatStartsAfterTheEnd(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.kernel.Ignores = func(int, string) bool { return true }
		l := r.launch("vm", declares)
		r.qemu(l.cgroup)
		r.exit(l.owner, "SIGKILL")
		r.after(2 * time.Second)
		vm := r.domain("/machine/x")
		r.after(5 * time.Minute)
		r.sent(vm)
		r.unattended(vm)
	})
}

// TestDomainThatStartsAfterTheEndIsStopped: where policy says so, also if the agent has
// not seen the launcher's end: the domain started after that, or before it.
func TestDomainThatStartsAfterTheEndIsStopped(t *testing.T) {
	for name, blind := range map[string]bool{"seen": false, "not seen": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, strict, func(r *rig) {
				l := r.launch("vm", declares)
				inside := r.qemu(l.cgroup)
				r.kernel.Ignores = func(pid int, _ string) bool { return pid == inside.PID }
				if blind {
					r.after(time.Minute)
					r.stop()
					r.after(time.Minute)
					r.kernel.Exit(l.owner.PID)
					r.config.Registry = registry.New()
					r.start()
					r.Reconciled()
				} else {
					r.exit(l.owner, "SIGKILL")
				}
				r.after(2 * time.Second)
				vm := r.domain("/machine/x")
				r.after(5 * time.Minute)
				r.unattended(vm)
				if r.lives(vm) {
					t.Error("the VM lives")
				}
			})
		})
	}
}

// unattended fails unless that was told once of a process.
func (r *rig) unattended(p host.Process) {
	r.t.Helper()
	told := slices.DeleteFunc(r.recorder.Events(), func(e agentapi.Event) bool {
		return e.Reason != agentapi.ReasonVMUnattended || e.Container.PID != p.PID
	})
	if len(told) != 1 {
		r.t.Errorf("told %d times that process %d is unattended, want once: %v", len(told), p.PID, r.recorder.Reasons())
	}
}

// TestDomainThatNobodySaw: agent and launcher are gone, and between that libvirt starts
// the VM. It belongs to the launcher only if that lived for sure when it was made: the
// tracker may tell later when it has ended.
func TestDomainThatNobodySaw(t *testing.T) {
	for name, tt := range map[string]struct {
		forkedBefore, told, others bool
		stopped                    bool
	}{
		"while the agent was there":          {forkedBefore: true, stopped: true},
		"another pod declares it, too":       {forkedBefore: true, others: true},
		"while it was away: it is nobody's":  {},
		"while it was away, but in time":     {told: true, stopped: true},
		"while it was away: it is another's": {others: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", declares)
				var vm host.Process
				if tt.forkedBefore {
					vm = r.forks()
				}
				r.stop()
				if !tt.forkedBefore {
					vm = r.forks()
				}
				r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
				r.executes(vm)
				ended := supervisor.ProcessEvent{Tracked: supervisor.Tracked{Process: l.owner}, Ended: true, At: r.config.Clock.Now()}
				r.kernel.Exit(l.owner.PID)
				r.after(time.Second)
				r.start()
				if tt.told {
					r.ProcessEvent(ended)
				}
				r.after(time.Minute)
				r.sent(vm)
				if !r.HasPod(l.Pod.UID) {
					t.Fatal("the launcher is over before it is known whose the VM is")
				}
				if tt.others {
					r.is(r.launch("other", declares), agentapi.PhaseActive, agentapi.VMRunning)
				}
				r.Reconciled()
				r.after(grace + 2*term)
				if r.lives(vm) == tt.stopped || r.HasPod(l.Pod.UID) {
					t.Errorf("VM lives: %t, its pod is known: %t", r.lives(vm), r.HasPod(l.Pod.UID))
				}
				if !tt.stopped && !tt.others {
					r.unattended(vm)
				}
			})
		})
	}
}

// TestDomainStartedByHand: agent and launcher are gone, and an hour later somebody
// starts the domain.
func TestDomainStartedByHand(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", declares)
		r.stop()
		r.kernel.Exit(l.owner.PID)
		r.after(time.Hour)
		vm := r.domain("/machine/x")
		r.start()
		r.Reconciled()
		r.after(grace + 2*term)
		r.sent(vm)
		r.unattended(vm)
	})
}

// TestDomainStartedByHandInASuspension: the same for an agent that was stopped.
func TestDomainStartedByHandInASuspension(t *testing.T) {
	var slept atomic.Int64
	inBubble(t, func(c *supervisor.Config) { c.Clock = sleptClock{c.Clock, &slept} }, func(r *rig) {
		r.kernel.Clock = r.config.Clock
		l := r.launch("vm", declares)
		slept.Store(int64(time.Hour))
		vm := r.process("/machine/x")
		slept.Add(int64(time.Minute))
		r.kernel.Exit(l.owner.PID)
		r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
		r.executes(vm)
		r.Reconciled()
		r.after(grace + 2*term)
		r.sent(vm)
		r.unattended(vm)
	})
}

// TestDomainThatTheFenceSaw: the agent hangs, and who stands in for it knows that the
// domain was started while its launcher lived.
func TestDomainThatTheFenceSaw(t *testing.T) {
	for name, saw := range map[string]func(tie *tie.Tie, now host.Boottime){
		"the launcher lives": func(tie *tie.Tie, now host.Boottime) { tie.AliveAt = now },
		"the launcher's end": func(tie *tie.Tie, now host.Boottime) {
			tie.LauncherGone, tie.LauncherGoneAt = "its first process has ended", now
		},
	} {
		t.Run(name, func(t *testing.T) {
			var slept, backs atomic.Int64
			change := func(c *supervisor.Config) {
				c.Clock, c.AfterAbsence = sleptClock{c.Clock, &slept}, func(context.Context) { backs.Add(1) }
			}
			inBubble(t, change, func(r *rig) {
				r.kernel.Clock = r.config.Clock
				l := r.launch("vm", declares)
				slept.Store(int64(time.Minute))
				vm := r.process("/machine/x")
				slept.Add(int64(time.Second))
				r.stands(l, saw)
				r.kernel.Exit(l.owner.PID)
				slept.Add(int64(time.Minute))
				r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
				r.executes(vm)
				r.Reconciled()
				r.after(grace + 2*term)
				if r.lives(vm) || backs.Load() == 0 {
					t.Errorf("the VM lives: %t, others were waited for %d times", r.lives(vm), backs.Load())
				}
			})
		})
	}
}

// stands has a fence note what it sees of a launcher.
func (r *rig) stands(l launcher, saw func(*tie.Tie, host.Boottime)) {
	r.t.Helper()
	ties, err := r.store.Load()
	if err != nil || len(ties) != 1 || ties[0].Launcher.Container.ID != l.Container.ID {
		r.t.Fatalf("the store has %+v, %v", ties, err)
	}
	saw(&ties[0], r.config.Clock.Now())
	if err := r.store.Save(ties[0]); err != nil {
		r.t.Fatal(err)
	}
}

// TestAliveAtIsStored: an agent that is killed leaves it, too.
func TestAliveAtIsStored(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l, plain := r.launch("vm", declares), r.launch("plain", nil)
		r.after(time.Hour)
		ties, err := r.store.Load()
		if err != nil || len(ties) != 2 {
			t.Fatalf("ties: %+v, %v", ties, err)
		}
		for _, tie := range ties {
			age := r.config.Clock.Now().Sub(tie.AliveAt)
			if tie.Launcher.Pod.UID == l.Pod.UID && age > 10*time.Second {
				t.Errorf("it was known to live %v ago", age)
			}
			if tie.Launcher.Pod.UID == plain.Pod.UID && tie.AliveAt != 0 {
				t.Error("it is stored for nothing that a launcher without a domain lives")
			}
		}
	})
}

// TestGuestOfAnotherVM: libvirt knows a domain by its UUID, whoever runs it now.
func TestGuestOfAnotherVM(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		asked := 0
		r.domains.OnShutdown = func(tie.Domain) error { asked++; return nil }
		l := r.launch("vm", declares)
		vm := r.domain("/machine/x")
		r.domains.Forget(domainUUID)
		r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: r.process("/machine/y").PID})
		r.exit(l.owner, "SIGKILL")
		r.after(0)
		r.sent(vm, "TERM")
		if asked != 0 {
			t.Error("the guest of another VM is asked to shut down")
		}
	})
}
