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

// Fixture is a domain that runs, for the suite alone, and what can be done with it.
// What cannot be done has to be refused with [virt.ErrUnsupported].
type Fixture struct {
	Connection virt.Connection
	Domain     virt.Domain

	VCPUs     bool   // vCPUs can be plugged
	Unplug    bool   // and unplugged again
	Agent     bool   // the guest has an agent that counts its vCPUs
	VirtioMem string // the alias of a virtio-mem device with nothing requested
	DIMM      uint64 // the size of a DIMM of which Slots fit, and none twice as large as all
	Balloon   bool
	Bandwidth bool
	ACPI      bool // the guest listens to the power button

	// Defined is the domain as it will be after its next start. nil: it has none.
	Defined func(t *testing.T) virt.State

	// StartAnew starts the domain when it is off.
	Restart func(t *testing.T)

	// Lose ends libvirt, and Return starts it again. nil: that cannot be.
	StopLibvirt, StartLibvirt func(t *testing.T)
}

// Run is the conformance suite of [virt.Connection] and [virt.Domain]. It takes the
// domain of one fixture from test to test, and shuts it down in the end.
func Run(t *testing.T, newFixture func(t *testing.T) Fixture) {
	f := newFixture(t)
	for _, test := range []struct {
		name string
		f    func(Fixture, *testing.T)
	}{
		{"domains are found", Fixture.testLookup},
		{"state makes sense", Fixture.testState},
		{"vCPUs are plugged", Fixture.testPlug},
		{"virtio-mem grows and shrinks", Fixture.testVirtioMem},
		{"DIMMs are plugged and unplugged", Fixture.testDIMM},
		{"slots run out", Fixture.testSlots},
		{"the balloon is set", Fixture.testBalloon},
		{"bandwidth is set and removed", Fixture.testBandwidth},
		{"contexts end calls and watches", Fixture.testContext},
		{"libvirt goes and comes back", Fixture.testConnectionLoss},
		{"vCPUs are unplugged", Fixture.testUnplug},
		{"the domain is shut down", Fixture.testShutdown},
		{"started anew it is another one", Fixture.testRestart},
	} {
		t.Run(test.name, func(t *testing.T) { test.f(f, t) })
	}
}

// patience is for emulated guests on busy machines.
const stateTimeout = 90 * time.Second

func (f Fixture) state(t *testing.T) virt.State {
	t.Helper()
	s, err := f.Domain.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// await waits until the state is so: for notices, and because there is none of all
// that a guest does, from time to time.
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
			t.Fatalf("it never came that %s: %+v, %v", condition, s, err)
		}
	}
}

// defined wants that the next start is so, too.
func (f Fixture) expectDefined(t *testing.T, what string, met func(virt.State) bool) {
	t.Helper()
	if f.Defined == nil {
		return
	}
	if s := f.Defined(t); !met(s) {
		t.Errorf("%s: the definition is %+v", what, s)
	}
}

// refused wants an error that names the domain.
func (f Fixture) expectRefused(t *testing.T, what string, err error, kinds ...error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), f.state(t).Name) {
		t.Errorf("%s: %v, want an error that names the domain", what, err)
	}
	for _, kind := range kinds {
		if !errors.Is(err, kind) {
			t.Errorf("%s: %v, want that %v", what, err, kind)
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
	for _, name := range []string{"nobody", "", "00000000-0000-4000-8000-000000000000"} {
		if _, err := f.Connection.Domain(t.Context(), name); !errors.Is(err, virt.ErrNoDomain) {
			t.Errorf("Domain(%q): %v, want that %v", name, err, virt.ErrNoDomain)
		}
	}
}

// agree wants that all ways to look at the domain tell the same.
func (f Fixture) expectReadsAgree(t *testing.T) {
	t.Helper()
	want := f.state(t)
	if p, err := f.Domain.Phase(t.Context()); err != nil || p != want.Phase {
		t.Errorf("Phase = %q, %v, and the state is %+v", p, err, want)
	}
	if l, err := f.Domain.Life(t.Context()); err != nil || l != (virt.Life{UUID: want.UUID, Phase: want.Phase, Migrating: want.Migrating}) {
		t.Errorf("Life = %+v, %v, and the state is %+v", l, err, want)
	}
	want.VCPUs.Online = virt.Unknown
	if s, err := f.Domain.StateWithoutGuest(t.Context()); err != nil || !reflect.DeepEqual(s, want) {
		t.Errorf("StateWithoutGuest = %+v, %v, want %+v", s, err, want)
	}
}

func (f Fixture) testState(t *testing.T) {
	s := f.state(t)
	v := s.VCPUs
	if s.Phase != virt.Running || s.Migrating || v.Boot < 1 || v.Plugged < v.Boot || v.Maximum < v.Plugged || s.Memory.Boot == 0 {
		t.Errorf("%+v makes no sense", s)
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
