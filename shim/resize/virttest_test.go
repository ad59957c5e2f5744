package resize_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// definedDomain is a fake domain with memory in its definition.
type definedDomain struct{ *virttest.Domain }

func (definedDomain) XML(context.Context) (string, error) {
	return "<domain><memory unit='GiB'>1</memory></domain>", nil
}

// unlimitedNode is a node without limits.
type unlimitedNode struct{}

func (unlimitedNode) Limits(context.Context) (resize.Limits, error) {
	return resize.Limits{
		PodMax:       resize.NoLimit,
		ContainerMax: resize.NoLimit,
		Lock:         8 * mi,
		Available:    resize.NoLimit,
	}, nil
}
func (unlimitedNode) RaiseLock(context.Context, uint64) error           { return nil }
func (unlimitedNode) LowerLock(context.Context, uint64) error           { return nil }
func (unlimitedNode) RequireMemory(context.Context, uint64) error       { return nil }
func (unlimitedNode) Hold(context.Context, time.Duration, uint64) error { return nil }
func (unlimitedNode) Changed(ctx context.Context) (<-chan struct{}, error) {
	return closedWith(ctx), nil
}

func closedWith(ctx context.Context) <-chan struct{} {
	c := make(chan struct{})
	context.AfterFunc(ctx, func() { close(c) })
	return c
}

// libvirt executes a call, but its answer is lost with the connection. The runner does not repeat
// the call, and uses events instead of polling: only the 29 s of libvirt's absence pass.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := virttest.New(virt.State{
			UUID:   "00000000-0000-4000-8000-000000000001",
			Name:   "vm",
			Phase:  virt.Running,
			VCPUs:  virt.VCPUs{Plugged: 2, Maximum: 4, Boot: 1, Online: 2},
			Memory: virt.Memory{Boot: gi, Maximum: 4 * gi, Slots: 4, Cells: 1},
			Bandwidth: virt.Bandwidth{
				Period:    100 * time.Millisecond,
				Quota:     virt.Unlimited,
				Shares:    1024,
				Supported: true,
			},
		})
		fake.DisconnectOnCall(virttest.After)
		time.AfterFunc(29*time.Second, fake.Reconnect)
		r := resize.Runner{
			Domain: definedDomain{
				fake.First(),
			},
			Node:    unlimitedNode{},
			Journal: &memoryJournal{calls: &calls{}},
			Policy:  resize.Policy{Shrink: true, Timeouts: resize.Timeouts{Poll: time.Hour}},
		}
		started := time.Now()
		for _, s := range []api.Size{{Memory: 2 * gi, VCPUs: 4}, {Memory: gi, VCPUs: 1}} {
			report, err := r.Run(
				context.Background(), func() target.Target { return target.Target{Size: s} },
			)
			if err != nil || report.Actual.Memory != uint64(s.Memory) ||
				report.Actual.Online != s.VCPUs {
				t.Errorf("got %v, %+v\n%s", err, report.Actual, stepLog(report))
			}
		}
		want := "attach|set vCPUs to 4|set vCPUs to 1|detach"
		if diff := cmp.Diff(want, shortCalls(fake.First().Calls())); diff != "" {
			t.Errorf("calls (-want +got)\n%s", diff)
		}
		if took := time.Since(started); took != 29*time.Second {
			t.Errorf("took %s", took)
		}
		if err := fake.Close(); err != nil {
			t.Error(err)
		}
	})
}

// loweringNode is a node whose container limit falls once a DIMM is plugged.
type loweringNode struct {
	unlimitedNode
	domain virt.Domain
	to     uint64
}

func (l loweringNode) Limits(ctx context.Context) (resize.Limits, error) {
	seen, err := l.unlimitedNode.Limits(ctx)
	if s, _ := l.domain.State(ctx); len(s.Memory.Devices) > 0 {
		seen.ContainerMax = l.to
	}
	return seen, err
}

// The report has a note about a limit that fell after the last step.
func TestLoweredTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for limit, note := range map[uint64]string{
			2*gi + 64*mi: "",
			2*gi + 64*mi - 1: "memory.max fell to 2214592511, and the VM may need 2112Mi: " +
				"the kernel kills the VM if it uses more than memory.max",
		} {
			fake := virttest.New(virt.State{
				UUID: "00000000-0000-4000-8000-000000000001", Name: "vm", Phase: virt.Running,
				Memory: virt.Memory{Boot: gi, Maximum: 4 * gi, Slots: 4, Cells: 1},
			})
			domain := definedDomain{fake.First()}
			r := resize.Runner{
				Domain:  domain,
				Node:    loweringNode{domain: domain, to: limit},
				Journal: &memoryJournal{calls: &calls{}},
				Policy:  resize.Policy{Shrink: true},
			}
			want := target.Target{Size: api.Size{Memory: 2 * gi}, Overhead: 64 * mi}
			report, err := r.Run(context.Background(), func() target.Target { return want })
			if err != nil || report.Actual.Memory != 2*gi ||
				strings.Join(report.Notes, "; ") != note {
				t.Errorf(
					"got %v, %+v, notes %q, want %q\n%s", err, report.Actual, report.Notes, note,
					stepLog(report),
				)
			}
			if err := fake.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// shortCalls removes the sizes of devices.
func shortCalls(calls []string) string {
	for i := range calls {
		if name, _, ok := strings.Cut(calls[i], " "); ok && !strings.Contains(calls[i], "vCPUs") {
			calls[i] = name
		}
	}
	return strings.Join(calls, "|")
}
