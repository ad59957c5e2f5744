package supervisor_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/gate"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

// published keeps the owners that a supervisor published last.
type published struct {
	mu  sync.Mutex
	all []gate.Owner
}

func (p *published) owners() []gate.Owner {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all
}

func (p *published) change(c *supervisor.Config) {
	c.PublishOwners = func(owners []gate.Owner) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all = owners
	}
	c.RequiresOwner = func(domain string) bool { return domain == "one" }
}

// expect fails the test unless the only published owner is inactive for this reason; empty: active.
func (p *published) expect(t *testing.T, inactive string) {
	t.Helper()
	owners := p.owners()
	if len(owners) != 1 || (owners[0].Inactive == "") != (inactive == "") ||
		!strings.Contains(owners[0].Inactive, inactive) {
		t.Fatalf("owners %+v, want one that is inactive: %q", owners, inactive)
	}
}

// The gate knows each change of a launcher at once, and each heartbeat.
func TestOwnersForTheGate(t *testing.T) {
	var p published
	inBubble(t, p.change, func(r *rig) {
		r.launch("plain", nil)
		l := r.launch("vm", func(l *registry.Launcher) {
			withDomain(l)
			withWatchdog(l)
		})
		p.expect(t, "no heartbeat")
		r.heartbeat(l)
		p.expect(t, "")
		owner, now := p.owners()[0], r.config.Clock.Now()
		want := gate.Owner{Domain: "one", Pod: "vms/vm", PID: l.process.PID,
			Ticks: l.process.Ticks(), HeartbeatUntil: time.Duration(now.Add(watchdog))}
		if owner != want {
			t.Errorf("owner %+v, want %+v", owner, want)
		}
		r.requestStop(l)
		p.expect(t, "requested the stop")
	})
}

// A supervisor does not know the age of a heartbeat from before its start. For the gate such a
// heartbeat does not count.
func TestOldHeartbeatForTheGate(t *testing.T) {
	for name, interrupt := range map[string]func(*rig, launcher){
		"restart": func(r *rig, _ launcher) { r.stop(); r.start() },
		"restart without a store": func(r *rig, l launcher) {
			r.stop()
			r.config.Store = &lifecycletest.Store{}
			r.start()
			r.LauncherStarted(l.Launcher)
			synctest.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p published
			inBubble(t, p.change, func(r *rig) {
				l := r.launch("vm", func(l *registry.Launcher) {
					withDomain(l)
					withWatchdog(l)
				})
				r.heartbeat(l)
				p.expect(r.t, "")
				r.advance(time.Hour)
				interrupt(r, l)
				r.advance(time.Second)
				p.expect(r.t, "no heartbeat")
				r.heartbeat(l)
				p.expect(r.t, "")
			})
		})
	}
}

func TestEndedOwnerForTheGate(t *testing.T) {
	var p published
	inBubble(t, p.change, func(r *rig) {
		l := r.launch("vm", withDomain)
		p.expect(t, "")
		r.exit(l.process, "SIGKILL")
		p.expect(t, "SIGKILL")
		r.config.Registry.RemoveContainer(l.Container.ID)
		r.advance(time.Minute)
		if owners := p.owners(); len(owners) != 0 {
			t.Errorf("owners %+v after the tie's end", owners)
		}
	})
}

// A launcher can end after the gate's decision. Then its VM starts late, and must not stay.
func TestLateStartOfADomainThatRequiresAnOwner(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, time.Minute} {
		for _, domain := range []string{"one", "other"} {
			change := func(c *supervisor.Config) {
				c.RequiresOwner = func(name string) bool { return name == domain }
			}
			inBubble(t, change, func(r *rig) {
				l := r.launch("vm", withDomain)
				r.exit(l.process, "SIGKILL")
				r.config.Registry.RemoveContainer(l.Container.ID)
				r.advance(after)
				vm := r.startDomain("/machine/x")
				r.advance(gracePeriod + 2*termPeriod)
				if stays := domain != "one"; r.alive(vm) != stays {
					t.Errorf("start %s after the launcher's end, owner required for %s: VM alive: %t",
						after, domain, r.alive(vm))
				}
				r.expectUnattendedEvent(vm)
			})
		}
	}
}

// In observe mode the requirement stops no VM.
func TestLateStartInObserveMode(t *testing.T) {
	change := func(c *supervisor.Config) {
		c.Terms.Enforce = false
		c.RequiresOwner = func(string) bool { return true }
	}
	inBubble(t, change, func(r *rig) {
		l := r.launch("vm", withDomain)
		r.exit(l.process, "SIGKILL")
		vm := r.startDomain("/machine/x")
		r.advance(gracePeriod + 2*termPeriod)
		r.expectSignals(vm)
	})
}
