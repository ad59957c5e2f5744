package virttest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

// Fixture is a running domain for the suite, with the features it supports. Other features must
// return [virt.ErrUnsupported].
type Fixture struct {
	Connection virt.Connection
	Domain     virt.Domain

	VCPUs     bool   // can plug vCPUs
	Unplug    bool   // can unplug vCPUs
	Agent     bool   // the guest has an agent that counts its vCPUs
	VirtioMem string // alias of a virtio-mem device with nothing requested
	DIMM      uint64 // DIMM size; Memory.Slots of them fit below the maximum
	Balloon   bool
	Bandwidth bool
	ACPI      bool // the guest obeys the power button

	// Defined returns the state after the next start; nil: the domain has no definition.
	Defined func(t *testing.T) virt.State

	// Restart starts the domain after a shutdown.
	Restart func(t *testing.T)

	// StopLibvirt kills libvirt, and StartLibvirt starts it again; nil: not possible.
	StopLibvirt, StartLibvirt func(t *testing.T)
}

// Run is the conformance suite of [virt.Connection] and [virt.Domain]. All tests use the domain of
// one fixture, one after the other. The last ones shut it down and restart it.
func Run(t *testing.T, newFixture func(t *testing.T) Fixture) {
	f := newFixture(t)
	for _, test := range []struct {
		name string
		f    func(Fixture, *testing.T)
	}{
		{"lookup", Fixture.testLookup},
		{"state", Fixture.testState},
		{"plug vCPUs", Fixture.testPlug},
		{"grow and shrink virtio-mem", Fixture.testVirtioMem},
		{"plug and unplug DIMMs", Fixture.testDIMM},
		{"no free slots", Fixture.testSlots},
		{"balloon", Fixture.testBalloon},
		{"bandwidth", Fixture.testBandwidth},
		{"canceled contexts", Fixture.testContext},
		{"connection loss", Fixture.testConnectionLoss},
		{"unplug vCPUs", Fixture.testUnplug},
		{"shutdown", Fixture.testShutdown},
		{"restart", Fixture.testRestart},
	} {
		t.Run(test.name, func(t *testing.T) { test.f(f, t) })
	}
}

// stateTimeout allows for emulated guests on busy machines.
const stateTimeout = 90 * time.Second

func (f Fixture) state(t *testing.T) virt.State {
	t.Helper()
	s, err := f.Domain.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// await reads the state until the condition is met. It reads after each notice, and also every 100
// ms, because some changes of a guest have no event.
func (f Fixture) await(t *testing.T, condition string, met func(virt.State) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stateTimeout)
	defer cancel()
	changed, err := f.Domain.Changed(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := f.Domain.State(ctx)
		if err == nil && met(s) {
			return
		}
		select {
		case <-changed:
		case <-tick.C:
		}
		if ctx.Err() != nil {
			t.Fatalf("never met: %s: %+v, %v", condition, s, err)
		}
	}
}

// expectDefined checks the state after the next start.
func (f Fixture) expectDefined(t *testing.T, what string, met func(virt.State) bool) {
	t.Helper()
	if f.Defined == nil {
		return
	}
	if s := f.Defined(t); !met(s) {
		t.Errorf("%s: the definition is %+v", what, s)
	}
}

// expectRefused expects an error of the given kinds that names the domain.
func (f Fixture) expectRefused(t *testing.T, what string, err error, kinds ...error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), f.state(t).Name) {
		t.Errorf("%s: %v, want an error that names the domain", what, err)
	}
	for _, kind := range kinds {
		if !errors.Is(err, kind) {
			t.Errorf("%s: %v, want %v", what, err, kind)
		}
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func (f Fixture) testLookup(t *testing.T) {
	want := f.state(t)
	for _, name := range []string{want.Name, want.UUID} {
		d, err := f.Connection.Domain(t.Context(), name)
		must(t, err)
		if s, err := d.State(t.Context()); err != nil || s.UUID != want.UUID {
			t.Errorf("Domain(%q) is %+v, %v, want %s", name, s, err, want.UUID)
		}
	}
	all, err := f.Connection.Domains(t.Context())
	must(t, err)
	found := ""
	for _, d := range all {
		s, err := d.State(t.Context())
		found += fmt.Sprintln(s.UUID, err)
	}
	if !strings.Contains(found, want.UUID+" <nil>") {
		t.Errorf("Domains = %s, want %s among them", found, want.UUID)
	}
	for _, name := range []string{"missing", "", "00000000-0000-4000-8000-000000000000"} {
		if _, err := f.Connection.Domain(t.Context(), name); !errors.Is(err, virt.ErrNoDomain) {
			t.Errorf("Domain(%q): %v, want %v", name, err, virt.ErrNoDomain)
		}
	}
}

// expectReadsAgree checks that all reading methods return the same.
func (f Fixture) expectReadsAgree(t *testing.T) {
	t.Helper()
	want := f.state(t)
	if p, err := f.Domain.Phase(t.Context()); err != nil || p != want.Phase {
		t.Errorf("Phase = %q, %v, want the state's, %+v", p, err, want)
	}
	l, err := f.Domain.Life(t.Context())
	if err != nil ||
		l != (virt.Life{UUID: want.UUID, Phase: want.Phase, Migrating: want.Migrating}) {
		t.Errorf("Life = %+v, %v, want the state's, %+v", l, err, want)
	}
	want.VCPUs.Online = virt.Unknown
	s, err := f.Domain.StateWithoutGuest(t.Context())
	if err != nil || !reflect.DeepEqual(s, want) {
		t.Errorf("StateWithoutGuest = %+v, %v, want %+v", s, err, want)
	}
}

func (f Fixture) testState(t *testing.T) {
	s := f.state(t)
	v := s.VCPUs
	if s.Phase != virt.Running || s.Migrating || v.Boot < 1 || v.Plugged < v.Boot ||
		v.Maximum < v.Plugged ||
		s.Memory.Boot == 0 {
		t.Errorf("inconsistent state %+v", s)
	}
	if s.Bandwidth.Supported != f.Bandwidth || f.Balloon && !s.Memory.Ballooned {
		t.Errorf("%+v, want bandwidth %t, balloon %t", s, f.Bandwidth, f.Balloon)
	}
	f.expectReadsAgree(t)
	text, err := f.Domain.XML(t.Context())
	if err != nil || !strings.Contains(text, "<uuid>"+s.UUID+"</uuid>") {
		t.Errorf("XML = %q, %v, want one with %s", text, err, s.UUID)
	}
}
