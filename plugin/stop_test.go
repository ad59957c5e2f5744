package plugin_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/plugin"
)

// gate blocks CreateContainer until open closes. It reports requests and the call of Stopping.
type gate struct {
	*node
	asked, open, stopping chan struct{}
}

func (g gate) CreateContainer(ctx context.Context, pod *nri.PodSandbox, ctr *nri.Container) (
	*nri.ContainerAdjustment, []*nri.ContainerUpdate, error,
) {
	g.asked <- struct{}{}
	<-g.open
	return g.node.CreateContainer(ctx, pod, ctr)
}

func (g gate) Stopping() { close(g.stopping) }

// The agent answers requests before it ends. The answer here exceeds the size of one write.
func TestStopAnswersRequestsInFlight(t *testing.T) {
	socket := filepath.Join(socketDir(t), "nri.sock")
	r := startRuntime(t, socket)
	g := gate{newNode(t, policy.Enforce), make(chan struct{}), make(chan struct{}),
		make(chan struct{})}
	c, err := plugin.NewConnection(plugin.ConnectionConfig{
		Socket: socket, Name: "mooring", Index: "90", Handlers: g,
		Logger: slog.New(slog.DiscardHandler), Observer: g.observer,
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	await(t, c, "synchronised", synchronized)
	r.BlockPluginSync().Unblock()

	pod := newPod(strings.Repeat("u", 8000), decidetest.VFIO()) // is in the mounts of the answer
	answered := make(chan *nri.ContainerAdjustment, 1)
	go func() {
		adjust, err := r.create(pod, newContainer(pod, "compute"))
		if err != nil {
			t.Error(err)
		}
		answered <- adjust
	}()
	<-g.asked
	cancel()
	<-g.stopping
	close(g.open)
	if adjust := <-answered; len(adjust.GetRlimits()) != 1 ||
		adjust.GetRlimits()[0].GetHard() != 5*gi {
		t.Errorf("adjustment = %v, want the memory lock", adjust)
	}
	<-ended
}

func TestStoppingRefusesLaunchersOnly(t *testing.T) {
	for mode, want := range map[policy.Mode]string{policy.Enforce: "mooring-agent is stopping; " +
		"kubelet tries again", policy.Observe: ""} {
		n := newNode(t, mode)
		n.Stopping()
		pod := newPod("u1", map[string]string{api.RequiresLockKey: "true"})
		_, err := n.create(pod, newContainer(pod, "compute"))
		if got := errorText(err); got != want {
			t.Errorf("%s: error of a launcher = %q, want %q", mode, got, want)
		}
		if _, err := n.create(pod, newContainer(pod, "sidecar")); err != nil {
			t.Errorf("%s: error of a sidecar: %v", mode, err)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
