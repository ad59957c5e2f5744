package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/mooring-vm/mooring/plugin"
)

func TestReadyOnceTheListIsTakenOver(t *testing.T) {
	config := testConfig(t)
	startRuntime(t, config.NRISocket)
	a, err := New(t.Context(), config, testBuild, discard)
	if err != nil {
		t.Fatal(err)
	}
	stage := newStage(t.Context(), func(error) {})
	t.Cleanup(func() {
		if err := errors.Join(stage.stop(), a.close()); err != nil {
			t.Error(err)
		}
	})
	stage.do(a.connection.Run)
	eventually(t, "the runtime's list", func() bool {
		status, _ := a.connection.Status()
		return status.Phase == plugin.Synchronized
	})
	if err := a.nriReady(); !errors.Is(err, errNotReconciled) {
		t.Errorf("before the list is taken over: %v, want %v", err, errNotReconciled)
	}
	stage.do(func(ctx context.Context) { a.plugin.Run(ctx) })
	eventually(t, "readiness", func() bool { return a.nriReady() == nil })
}
