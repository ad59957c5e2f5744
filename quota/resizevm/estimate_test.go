package resizevm

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/quota/virt"
)

// A failed estimate is in the status of the VM, changes no pod, and is retried with back-off.
func TestFailedEstimate(t *testing.T) {
	unreadable := errors.New(`additionalGuestMemoryOverheadRatio: "much": want a number`)
	for name, tt := range map[string]struct {
		cluster virt.Cluster
		err     error
		want    string
	}{
		"of an unreadable KubeVirt object": {err: unreadable, want: unreadable.Error()},
		"of an unknown version": {
			cluster: virt.Cluster{Configuration: cluster().Configuration},
			want:    "estimating the launcher of VM",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t, false)
			whole := p.sut.Cluster
			p.sut.Cluster = func(context.Context) (virt.Cluster, error) {
				return tt.cluster, tt.err
			}
			p.annotate(t, api.ResizeMemoryKey, "4Gi")
			for range 3 {
				if err := p.step(t); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("error %v, want %q for the back-off", err, tt.want)
				}
			}
			p.wantNoEstimate(t, tt.want)
			p.sut.Cluster = whole
			p.steps(t, 5)
			if s := p.status(t); s.Reason != api.ResizeDone {
				t.Errorf("status %+v", s)
			}
		})
	}
}

func (p *plane) wantNoEstimate(t *testing.T, message string) {
	t.Helper()
	s := p.status(t)
	if s.Reason != api.ResizeNoEstimate || !strings.Contains(s.Message, message) ||
		s.Desired.Memory != "4Gi" {
		t.Errorf("status %+v", s)
	}
	all := p.recorded()
	if len(all) != 1 || !strings.HasPrefix(all[0], "Warning "+ReasonFailed) ||
		!strings.Contains(all[0], message) {
		t.Errorf("Events %q", all)
	}
	if !sameResources(*p.resources(), p.shape.launcher) {
		t.Error("the pod was changed")
	}
}
