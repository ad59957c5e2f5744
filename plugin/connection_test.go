package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/plugin"
)

func TestAdjustmentArrives(t *testing.T) {
	socket := filepath.Join(socketDir(t), "nri.sock")
	r := startRuntime(t, socket)
	n := newNode(t, policy.Enforce)
	c := attach(t, r, socket, "90", n, n.observer)
	if s, _ := c.Status(); s.RuntimeName != "testruntime" || s.RuntimeVersion != "v1.2.3" ||
		s.Reconnects != 0 {
		t.Errorf("status = %+v, want testruntime v1.2.3 without reconnects", s)
	}
	pod := newPod("u1", decidetest.VFIO())
	adjust, err := r.create(pod, newContainer(pod, "compute"))
	must(t, err)
	if l := adjust.GetRlimits(); len(l) != 1 || l[0].GetHard() != 5*gi {
		t.Errorf("rlimits = %v, want 5Gi", l)
	}
	if m := adjust.GetMounts(); len(m) != 3 || m[0].GetSource() != "/dirs/u1" {
		t.Errorf("mounts = %v, want the pod's directory", m)
	}
	plain, err := r.create(pod, newContainer(pod, "sidecar"))
	must(t, err)
	if len(plain.GetRlimits())+len(plain.GetMounts()) != 0 {
		t.Errorf("adjustment of the sidecar = %v, want nothing", plain)
	}
}

func TestUpdateArrives(t *testing.T) {
	socket := filepath.Join(socketDir(t), "nri.sock")
	r := startRuntime(t, socket)
	n := newNode(t, policy.Enforce)
	attach(t, r, socket, "90", n, n.observer)
	pod := newPod("u1", map[string]string{"cpuset.cpus.cgroup.mooring.dev": "0-1",
		"cpu.weight.cgroup.mooring.dev": "300"})
	ctr := newContainer(pod, "compute")
	_, err := r.create(pod, ctr)
	must(t, err)
	reply, err := r.UpdateContainer(context.Background(), &nri.UpdateContainerRequest{
		Pod: pod, Container: ctr,
		LinuxResources: &nri.LinuxResources{
			Cpu: &nri.LinuxCPU{Cpus: "4-7", Shares: nri.UInt64(uint64(512))}},
	})
	must(t, err)
	if len(reply.GetUpdate()) != 1 {
		t.Fatalf("updates = %v, want one", reply.GetUpdate())
	}
	got := reply.GetUpdate()[0].GetLinux().GetResources()
	if got.GetCpu().GetCpus() != "0-1" || got.GetUnified()["cpu.weight"] != "300" ||
		got.GetCpu().GetShares().GetValue() != 512 {
		t.Errorf("resources = %v, want our cpuset and weight, and kubelet's shares", got)
	}
}

func TestRefusalArrives(t *testing.T) {
	socket := filepath.Join(socketDir(t), "nri.sock")
	r := startRuntime(t, socket)
	n := newNode(t, policy.Enforce)
	attach(t, r, socket, "90", n, n.observer)
	pod := newPod("u1", map[string]string{"guest-memory.memlock.mooring.dev": "1e30"})
	_, err := r.create(pod, newContainer(pod, "compute"))
	for _, want := range []string{`mooring refuses container "compute" of pod trusted/vm-u1`,
		`"1e30"`, "quantity"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want one with %q", err, want)
		}
	}
	// The runtime keeps a plugin that refuses.
	ok := newPod("u2", decidetest.VFIO())
	if _, err := r.create(ok, newContainer(ok, "compute")); err != nil {
		t.Error(err)
	}
}

func TestReconnectsWhenTheRuntimeRestarts(t *testing.T) {
	socket := filepath.Join(socketDir(t), "nri.sock")
	n := newNode(t, policy.Enforce)
	c := connect(t, socket, "90", n, n.observer) // the agent may be there first
	await(t, c, "without a runtime", func(s plugin.Status) bool { return s.Err != nil })
	for restarts := range 3 {
		r := startRuntime(t, socket)
		s := await(t, c, "synchronised", synchronized)
		if s.Reconnects != restarts || s.Err != nil {
			t.Errorf("status = %+v, want %d reconnects and no error", s, restarts)
		}
		r.BlockPluginSync().Unblock()
		pod := newPod(fmt.Sprintf("u%d", restarts), decidetest.VFIO())
		adjust, err := r.create(pod, newContainer(pod, "compute"))
		must(t, err)
		if len(adjust.GetRlimits()) != 1 {
			t.Errorf("restart %d: rlimits = %v, want one", restarts, adjust.GetRlimits())
		}
		r.kill()
		s = await(t, c, "disconnected", func(s plugin.Status) bool { return s.Err != nil })
		if s.RuntimeName != "testruntime" {
			t.Errorf("status = %+v, want to know which runtime it was", s)
		}
	}
	// The registry survives.
	if got := len(n.registry.List()); got != 3 {
		t.Errorf("%d launchers in the registry, want 3", got)
	}
}

func TestSynchronizeWithAThousandContainers(t *testing.T) {
	socket := filepath.Join(socketDir(t), "nri.sock")
	n := newNode(t, policy.Enforce)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go n.Run(ctx)
	r := startRuntime(t, socket)
	for i := range 1000 {
		// more than one message holds
		pod := newPod(fmt.Sprintf("u%d", i),
			map[string]string{"padding": strings.Repeat("x", 8192)})
		ctr := newContainer(pod, "compute")
		ctr.State = nri.ContainerState_CONTAINER_CREATED
		r.pods, r.containers = append(r.pods, pod), append(r.containers, ctr)
	}
	attach(t, r, socket, "90", n, n.observer)
	poll(t, "1,000 launchers in the registry", func() bool {
		return len(n.registry.List()) == 1000
	})
	n.checkState(t, r.pods[999], agentapi.StateCreated)
}

// poll waits until a condition holds.
func poll(t *testing.T, what string, condition func() bool) {
	t.Helper()
	timeout, tick := time.After(deadline), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("no %s after %s", what, deadline)
		}
	}
}

// slow is a plugin that answers only after its release.
type slow struct {
	*node
	release chan struct{}
}

func (s slow) CreateContainer(context.Context, *nri.PodSandbox, *nri.Container) (
	*nri.ContainerAdjustment, []*nri.ContainerUpdate, error,
) {
	<-s.release
	return nil, nil, nil
}

func TestTimedOutPluginFailsTheRequestAndReconnects(t *testing.T) {
	socket := filepath.Join(socketDir(t), "nri.sock")
	r := startRuntime(t, socket)
	s := slow{newNode(t, policy.Enforce), make(chan struct{})}
	c := attach(t, r, socket, "90", s, s.observer)
	t.Cleanup(func() { close(s.release) })

	adaptation.SetPluginRequestTimeout(100 * time.Millisecond)
	pod := newPod("u1", decidetest.VFIO())
	_, err := r.create(pod, newContainer(pod, "compute"))
	adaptation.SetPluginRequestTimeout(deadline)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want the request to fail for its time-out", err)
	}
	// The runtime drops the plugin: plain pods start, and the agent reconnects.
	await(t, c, "connected again", func(s plugin.Status) bool {
		return synchronized(s) && s.Reconnects == 1
	})
}

func TestNewConnectionChecksItsConfig(t *testing.T) {
	good := plugin.ConnectionConfig{
		Socket: "/nri.sock", Name: "mooring", Index: "90", Handlers: newNode(t, policy.Enforce),
		Logger: slog.Default(),
	}
	if _, err := plugin.NewConnection(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*plugin.ConnectionConfig){
		"no handlers":  func(c *plugin.ConnectionConfig) { c.Handlers = nil },
		"no socket":    func(c *plugin.ConnectionConfig) { c.Socket = "" },
		"no logger":    func(c *plugin.ConnectionConfig) { c.Logger = nil },
		"long index":   func(c *plugin.ConnectionConfig) { c.Index = "100" },
		"index a name": func(c *plugin.ConnectionConfig) { c.Index = "aa" },
		"empty name":   func(c *plugin.ConnectionConfig) { c.Name = "" },
	} {
		bad := good
		spoil(&bad)
		if _, err := plugin.NewConnection(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
