package resize_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// silentDomain is a domain whose guest agent stops answering when vCPUs are plugged.
type silentDomain struct {
	definedDomain
	silent bool
}

func (m *silentDomain) SetVCPUs(ctx context.Context, n int) error {
	m.silent = true
	return m.definedDomain.SetVCPUs(ctx, n)
}

func (m *silentDomain) State(ctx context.Context) (virt.State, error) {
	s, err := m.definedDomain.State(ctx)
	if m.silent {
		s.VCPUs.Online = virt.Unknown
	}
	return s, err
}

// smallFake has one vCPU, which is online.
func smallFake() *virttest.Fake {
	return virttest.New(virt.State{
		UUID: "00000000-0000-4000-8000-000000000001", Name: "vm", Phase: virt.Running,
		VCPUs:  virt.VCPUs{Plugged: 1, Maximum: 4, Boot: 1, Online: 1},
		Memory: virt.Memory{Boot: gi, Maximum: 4 * gi, Slots: 4, Cells: 1},
	})
}

func runToVCPUs(d virt.Domain, n int) (resize.Report, error) {
	r := resize.Runner{
		Domain:  d,
		Node:    unlimitedNode{},
		Journal: &memoryJournal{calls: &calls{}},
		Policy:  resize.Policy{Shrink: true},
	}
	return r.Run(
		context.Background(),
		func() target.Target { return target.Target{Size: api.Size{VCPUs: n}} },
	)
}

// A guest that stops reporting its vCPUs has not confirmed the new ones.
func TestSilentGuestConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &silentDomain{definedDomain: definedDomain{smallFake().First()}}
		_, err := runToVCPUs(d, 2)
		if err == nil || !strings.Contains(err.Error(), "no longer reports how many it uses") {
			t.Errorf("error %v", err)
		}
		if s, err := d.State(t.Context()); err != nil || s.VCPUs.Plugged != 1 {
			t.Errorf("vCPUs %+v, %v, want a rollback", s.VCPUs, err)
		}
	})
}

// The runner repeats a call that did not reach libvirt.
func TestLostCallIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := smallFake()
		fake.DisconnectOnCall(virttest.Before)
		time.AfterFunc(time.Second, fake.Reconnect)
		report, err := runToVCPUs(definedDomain{fake.First()}, 2)
		if err != nil || len(report.Steps) != 1 || report.Actual.Online != 2 {
			t.Errorf("report %+v, %v", report, err)
		}
	})
}
