package resizevm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/quota"
)

// failingReader returns a reader whose reads of objects of o's type fail with *err.
func failingReader(from client.WithWatch, o any, err *error) client.Reader {
	answer := func(read any) error {
		if fmt.Sprintf("%T", read) == fmt.Sprintf("%T", o) {
			return *err
		}
		return nil
	}
	return interceptor.NewClient(from, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption,
		) error {
			if err := answer(o); err != nil {
				return err
			}
			return c.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption,
		) error {
			if err := answer(list); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
	})
}

// A user sees that the controller cannot read the VM or resize its launcher, since when and why.
// The status keeps the size that the admission policy needs.
func TestAPIErrorIsReported(t *testing.T) {
	reads := func(o any) func(*plane, *error) {
		return func(p *plane, err *error) { p.sut.Live = failingReader(p.api, o, err) }
	}
	for name, fail := range map[string]func(p *plane, err *error){
		"VM":       reads(&kubevirtv1.VirtualMachine{}),
		"instance": reads(&kubevirtv1.VirtualMachineInstance{}),
		"pods":     reads(&corev1.PodList{}),
		"patch":    func(p *plane, err *error) { p.refuse = *err },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t, false)
			began := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
			now := began
			p.sut.Now = func() time.Time { return now }
			p.annotate(t, api.ResizeMemoryKey, "3Gi")
			p.steps(t, 5)
			p.recorded()
			p.annotate(t, api.ResizeMemoryKey, "")
			p.annotate(t, api.VCPUsKey, "4")
			p.wantReportedFailure(t, &now, fail)
		})
	}
}

// wantReportedFailure makes requests to the API server fail for a minute.
func (p *plane) wantReportedFailure(
	t *testing.T, now *time.Time, fail func(*plane, *error),
) {
	t.Helper()
	began, err := *now, errors.New("the server was unable to return a response")
	live, before := p.sut.Live, p.status(t)
	fail(p, &err)
	for step := range 7 {
		if p.step(t) == nil {
			t.Fatal("no error for the back-off")
		}
		if s := p.status(t); step == 0 && s.Reason != before.Reason {
			t.Errorf("status %+v after the first failure, want no change", s)
		}
		*now = now.Add(10 * time.Second)
	}
	s := p.status(t)
	want := api.ResizeStatus{Reason: api.ResizeAPIError, Message: s.Message, Since: began,
		Desired: api.ResizeAmounts{VCPUs: 4}, Kept: api.ResizeAmounts{Memory: "3Gi"}}
	if s != want || !strings.Contains(s.Message, "unable to return a response") {
		t.Errorf("status %+v, want %+v", s, want)
	}
	if all := p.recorded(); len(all) != 1 ||
		!strings.HasPrefix(all[0], "Warning "+ReasonFailed) ||
		!strings.Contains(all[0], "unable to return a response") {
		t.Errorf("Events %q", all)
	}
	p.sut.Live, p.refuse = live, nil
	p.steps(t, 5)
	if s := p.status(t); s.Reason != api.ResizeDone || s.Since.Before(began) || s.Actual.VCPUs != 4 {
		t.Errorf("status %+v after the failure", s)
	}
}

// Short failures, as during a restart of the API server, are not reported.
func TestShortFailuresAreNotReported(t *testing.T) {
	p := newPlane(t, false)
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	p.sut.Now = func() time.Time { return now }
	live, err := p.sut.Live, errors.New("connection refused")
	p.annotate(t, api.ResizeMemoryKey, "3Gi")
	for range 5 {
		p.sut.Live = failingReader(p.api, &corev1.PodList{}, &err)
		if p.step(t) == nil {
			t.Fatal("no error for the back-off")
		}
		now = now.Add(8 * time.Second)
		p.sut.Live = live
		p.steps(t, 1)
	}
	for _, event := range p.recorded() {
		if strings.HasPrefix(event, "Warning") {
			t.Errorf("Event %q", event)
		}
	}
}

// A user removes the annotation of a VM that has the size of its template again, while the quotas
// are unreadable. The VM keeps no size, and no request to the API server fails.
func TestFailedEstimateKeepsTheStatus(t *testing.T) {
	p := newPlane(t, false)
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	p.sut.Now = func() time.Time { return now }
	for _, memory := range []string{"4Gi", "1Gi"} {
		p.annotate(t, api.ResizeMemoryKey, memory)
		p.steps(t, 6)
	}
	before := p.status(t)
	if before.Reason != api.ResizeDone || before.Actual.Memory != "1Gi" {
		t.Fatalf("status %+v", before)
	}
	p.sut.Snapshot = func(context.Context, string) (quota.Snapshot, error) {
		return quota.Snapshot{}, errors.New("the server was unable to return a response")
	}
	p.annotate(t, api.ResizeMemoryKey, "")
	for range 5 {
		_ = p.step(t)
		now = now.Add(8 * time.Second)
	}
	if now := p.status(t); now.Reason != before.Reason || now.Kept != (api.ResizeAmounts{}) {
		t.Errorf("status %+v, want %+v", now, before)
	}
}
