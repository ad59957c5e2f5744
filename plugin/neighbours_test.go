package plugin_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/adaptation"
	nri "github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	validator "github.com/containerd/nri/plugins/default-validator/builtin"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
)

// ulimitAdjuster is another NRI plugin. It sets RLIMIT_MEMLOCK for every container.
type ulimitAdjuster struct {
	limit uint64
	done  chan struct{} // closed when synchronised
}

func (u ulimitAdjuster) Synchronize(
	context.Context, []*nri.PodSandbox, []*nri.Container,
) ([]*nri.ContainerUpdate, error) {
	close(u.done)
	return nil, nil
}

func (u ulimitAdjuster) CreateContainer(context.Context, *nri.PodSandbox, *nri.Container) (
	*nri.ContainerAdjustment, []*nri.ContainerUpdate, error,
) {
	a := &nri.ContainerAdjustment{}
	a.AddRlimit("RLIMIT_MEMLOCK", u.limit, u.limit)
	return a, nil, nil
}

// addNeighbour starts the other plugin and waits until the runtime calls it.
func addNeighbour(t *testing.T, r *runtime, socket, index string, limit uint64) {
	t.Helper()
	u := ulimitAdjuster{limit, make(chan struct{})}
	s, err := stub.New(u, stub.WithSocketPath(socket), stub.WithPluginName("ulimit-adjuster"),
		stub.WithPluginIdx(index), stub.WithOnClose(func() {}), stub.WithLogger(quiet{}))
	must(t, err)
	must(t, s.Start(context.Background()))
	t.Cleanup(s.Stop)
	<-u.done
	r.BlockPluginSync().Unblock()
}

func TestTwoPlugins(t *testing.T) {
	neighbour := map[string]string{"ulimits.noderesource.dev/container.compute": "- {type: memlock, soft: 1, hard: 1}"}
	for name, test := range map[string]struct {
		index       string // of the neighbour; ours is 90
		limit       uint64
		annotations map[string]string
		want        uint64 // the container's limit
		err         string // or why there is none
	}{
		"earlier plugin with a higher limit: we yield": {"10", 8 * gi, neighbour, 8 * gi, ""},
		"earlier plugin with a lower limit": {"10", 1 * gi, neighbour, 0,
			"remove memlock from ulimits.noderesource.dev"},
		"later plugin": {"95", 8 * gi, neighbour, 0,
			"remove memlock from ulimits.noderesource.dev"},
		"unknown plugin": {"10", 1 * gi, nil, 0, "both tried to set"}, // the runtime's own error
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(socketDir(t), "nri.sock")
			r := startRuntime(t, socket)
			n := newNode(t, policy.Enforce)
			attach(t, r, socket, "90", n, n.observer)
			addNeighbour(t, r, socket, test.index, test.limit)

			requests := decidetest.VFIO()
			for k, v := range test.annotations {
				requests[k] = v
			}
			pod := newPod("u1", requests)
			adjust, err := r.create(pod, newContainer(pod, "compute"))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error = %v, want one with %q", err, test.err)
				}
				return
			}
			must(t, err)
			if l := adjust.GetRlimits(); len(l) != 1 || l[0].GetSoft() != test.want {
				t.Errorf("rlimits = %v, want one of %d", l, test.want)
			}
			if s := n.launcher(t, pod).Settings[0]; s.Status != agentapi.StatusYielded {
				t.Errorf("setting = %+v, want it yielded", s)
			}
		})
	}
}

// The required-plugins annotation names the plugin as it registers.
func TestRequiredPluginsAnnotation(t *testing.T) {
	socket := filepath.Join(socketDir(t), "nri.sock")
	r := startRuntime(t, socket,
		adaptation.WithDefaultValidator(&validator.DefaultValidatorConfig{Enable: true}))
	requests := decidetest.VFIO()
	requests["required-plugins.noderesource.dev"] = `["mooring"]`
	launcher, plain := newPod("u1", requests), newPod("u2", nil)

	if _, err := r.create(launcher, newContainer(launcher, "compute")); err == nil ||
		!strings.Contains(err.Error(), "mooring") {
		t.Errorf("without the agent: error = %v, want one that names the plugin", err)
	}
	if _, err := r.create(plain, newContainer(plain, "compute")); err != nil {
		t.Errorf("without the agent: plain pod: %v", err)
	}
	n := newNode(t, policy.Enforce)
	attach(t, r, socket, "90", n, n.observer)
	if _, err := r.create(launcher, newContainer(launcher, "compute")); err != nil {
		t.Errorf("with the agent: %v", err)
	}
}
