package resizevm

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/virt"
)

// If the quotas of the namespace are unreadable, the status of the VM says so. No pod changes, and
// controller-runtime retries with back-off.
func TestUnreadableQuotas(t *testing.T) {
	for name, fail := range map[string]func(p *plane, failing *bool, err error){
		"quotas and pods": func(p *plane, failing *bool, err error) {
			p.sut.Snapshot = func(context.Context, string) (quota.Snapshot, error) {
				if *failing {
					return quota.Snapshot{}, err
				}
				return p.snapshot(), nil
			}
		},
		"LimitRanges": func(p *plane, failing *bool, err error) {
			p.sut.Live = interceptor.NewClient(p.api, interceptor.Funcs{List: func(
				ctx context.Context, c client.WithWatch, list client.ObjectList,
				options ...client.ListOption,
			) error {
				if _, ok := list.(*corev1.LimitRangeList); ok && *failing {
					return err
				}
				return c.List(ctx, list, options...)
			}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, failing := newPlane(t, false), true
			fail(p, &failing, errors.New("the server was unable to return a response"))
			p.annotate(t, api.ResizeMemoryKey, "4Gi")
			for range 3 {
				if err := p.step(t); err == nil {
					t.Fatal("no error for the back-off")
				}
			}
			p.wantNotStarted(t, api.ResizeQuotaUnknown, "unable to return a response")
			failing = false
			p.steps(t, 5)
			if s := p.status(t); s.Reason != api.ResizeDone {
				t.Errorf("status %+v", s)
			}
		})
	}
}

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
			p.wantNotStarted(t, api.ResizeNoEstimate, tt.want)
			p.sut.Cluster = whole
			p.steps(t, 5)
			if s := p.status(t); s.Reason != api.ResizeDone {
				t.Errorf("status %+v", s)
			}
		})
	}
}

func (p *plane) wantNotStarted(t *testing.T, reason api.ResizeReason, message string) {
	t.Helper()
	s := p.status(t)
	if s.Reason != reason || !strings.Contains(s.Message, message) ||
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
