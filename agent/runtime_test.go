package agent

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/adaptation"
	nri "github.com/containerd/nri/pkg/api"
)

// startRuntime starts NRI's own runtime side, the same code as in containerd.
func startRuntime(t *testing.T, socket string) *adaptation.Adaptation {
	t.Helper()
	none := t.TempDir()
	list := func(ctx context.Context, cb adaptation.SyncCB) error {
		_, err := cb(ctx, nil, nil)
		return err
	}
	update := func(context.Context,
		[]*nri.ContainerUpdate) ([]*nri.ContainerUpdate, error) {
		return nil, nil
	}
	runtime, err := adaptation.New("testruntime", "v1.2.3", list, update,
		adaptation.WithSocketPath(socket), adaptation.WithPluginPath(none),
		adaptation.WithPluginConfigPath(none))
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runtime.Stop)
	return runtime
}

func testPod(namespace, name string, annotations map[string]string) *nri.PodSandbox {
	all := map[string]string{"launcher.mooring.dev": "compute"}
	for key, value := range annotations {
		all[key] = value
	}
	return &nri.PodSandbox{Id: "sandbox-" + name, Uid: "uid-" + name, Namespace: namespace,
		Name:        name,
		Annotations: all}
}

// idPrefix makes the IDs of this run's containers, and so the names of their cgroups, different from
// those that an interrupted run left on the machine.
var idPrefix = strings.ToLower(rand.Text())

func testContainer(pod *nri.PodSandbox) *nri.Container {
	return &nri.Container{
		Id: idPrefix + "-" + pod.GetName(), PodSandboxId: pod.GetId(), Name: "compute",
		Linux: &nri.LinuxContainer{
			Resources: &nri.LinuxResources{Memory: &nri.LinuxMemory{Limit: nri.Int64(4 << 30)}}},
	}
}

// makeCgroup makes a container's cgroup, named as runtimes do.
func makeCgroup(t *testing.T, mount, containerID string) (dir string) {
	t.Helper()
	dir = filepath.Join(mount, "cri-"+containerID+".scope")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		eventually(t, "an empty cgroup", func() bool { return os.Remove(dir) == nil })
	})
	return dir
}

func create(runtime *adaptation.Adaptation, pod *nri.PodSandbox, ctr *nri.Container) (
	*nri.ContainerAdjustment, error,
) {
	reply, err := runtime.CreateContainer(context.Background(),
		&nri.CreateContainerRequest{Pod: pod, Container: ctr})
	return reply.GetAdjust(), err
}
