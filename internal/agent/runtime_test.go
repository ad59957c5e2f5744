package agent

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/containerd/nri/pkg/adaptation"
	nri "github.com/containerd/nri/pkg/api"
)

// startRuntime starts NRI's own runtime side, as containerd has it.
func startRuntime(t *testing.T, socket string) *adaptation.Adaptation {
	t.Helper()
	none := t.TempDir()
	list := func(ctx context.Context, cb adaptation.SyncCB) error {
		_, err := cb(ctx, nil, nil)
		return err
	}
	update := func(context.Context, []*nri.ContainerUpdate) ([]*nri.ContainerUpdate, error) { return nil, nil }
	runtime, err := adaptation.New("testruntime", "v1.2.3", list, update,
		adaptation.WithSocketPath(socket), adaptation.WithPluginPath(none), adaptation.WithPluginConfigPath(none))
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
	return &nri.PodSandbox{Id: "sandbox-" + name, Uid: "uid-" + name, Namespace: namespace, Name: name, Annotations: all}
}

func testContainer(pod *nri.PodSandbox) *nri.Container {
	return &nri.Container{
		Id: "0123456789-" + pod.GetName(), PodSandboxId: pod.GetId(), Name: "compute",
		Linux: &nri.LinuxContainer{Resources: &nri.LinuxResources{Memory: &nri.LinuxMemory{Limit: nri.Int64(4 << 30)}}},
	}
}

// startProcess starts a process in a cgroup that is named as runtimes do it.
func startProcess(t *testing.T, mount, containerID string) (pid int) {
	t.Helper()
	dir := filepath.Join(mount, "cri-"+containerID+".scope")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	cgroup, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer cgroup.Close()
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cgroup.Fd())}
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return cmd.Process.Pid
}

func create(runtime *adaptation.Adaptation, pod *nri.PodSandbox, ctr *nri.Container) (*nri.ContainerAdjustment, error) {
	reply, err := runtime.CreateContainer(context.Background(), &nri.CreateContainerRequest{Pod: pod, Container: ctr})
	return reply.GetAdjust(), err
}
