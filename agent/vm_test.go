package agent

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/containerd/nri/pkg/adaptation"
	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// emulator returns a program with the name of an emulator. It waits for a signal.
func emulator(t *testing.T) string {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(sleep)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	path := filepath.Join(t.TempDir(), "qemu-system-x86_64")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// runIn runs a program in a cgroup. done is closed after its end.
func runIn(t *testing.T, dir string, args ...string) (cmd *exec.Cmd, done <-chan struct{}) {
	t.Helper()
	cgroup, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer cgroup.Close()
	cmd = exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cgroup.Fd())}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the tests check the signal
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return cmd, ended
}

// wantTerminated waits for the end of a program of runIn, and checks that SIGTERM ended it.
func wantTerminated(t *testing.T, cmd *exec.Cmd, done <-chan struct{}) {
	t.Helper()
	<-done
	if got := cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); got != syscall.SIGTERM {
		t.Errorf("the VM process ended by %v, want SIGTERM", got)
	}
}

func wantAlive(t *testing.T, done <-chan struct{}, who string) {
	t.Helper()
	select {
	case <-done:
		t.Errorf("%s has ended", who)
	default:
	}
}

// launched is a launcher with its first process, in a cgroup of its own.
type launched struct {
	pod     *nri.PodSandbox
	ctr     *nri.Container
	cgroup  string
	process *exec.Cmd
}

// launch starts a launcher as a runtime does.
func launch(t *testing.T, config Config, runtime *adaptation.Adaptation, name string) launched {
	t.Helper()
	return launchWith(t, config, runtime, name, nil)
}

// launchWith is launch with annotations of the pod.
func launchWith(
	t *testing.T, config Config, runtime *adaptation.Adaptation, name string,
	annotations map[string]string,
) launched {
	t.Helper()
	pod := testPod("vms", name, annotations)
	ctr := testContainer(pod)
	ctr.Linux.CgroupsPath = "/cri-" + ctr.GetId() + ".scope"
	if _, err := create(runtime, pod, ctr); err != nil {
		t.Fatal(err)
	}
	dir := makeCgroup(t, config.Cgroup, ctr.GetId())
	if err := runtime.StartContainer(context.Background(),
		&nri.StartContainerRequest{Pod: pod, Container: ctr}); err != nil {
		t.Fatal(err)
	}
	process, _ := runIn(t, dir, "sleep", "1000")
	ctr.Pid, ctr.State = uint32(process.Process.Pid), nri.ContainerState_CONTAINER_RUNNING
	if err := runtime.PostStartContainer(context.Background(),
		&nri.PostStartContainerRequest{Pod: pod, Container: ctr}); err != nil {
		t.Fatal(err)
	}
	return launched{pod, ctr, dir, process}
}

// phase returns the phase of a pod's launcher, and the number of its VM processes.
func (r *running) phase(name string) (phase agentapi.Phase, vms int) {
	for _, l := range r.Launchers() {
		if l.Pod.Name == name {
			return l.Phase, len(l.VMs)
		}
	}
	return "", 0
}

func (r *running) awaitPhase(t *testing.T, name string, want agentapi.Phase, vms int) {
	t.Helper()
	eventually(t, string(want), func() bool {
		phase, n := r.phase(name)
		return phase == want && n == vms
	})
}

// requireTracker skips the test if the kernel cannot track processes.
func (r *running) requireTracker(t *testing.T) {
	t.Helper()
	if r.supervision == nil {
		skip(t, r.trackerErr.Error())
	}
}

// startTracking starts an agent with a tracker and a runtime, synchronised with each other.
// It skips the test if the kernel cannot track processes.
func startTracking(t *testing.T, config Config) (*running, *adaptation.Adaptation) {
	t.Helper()
	runtime := startRuntime(t, config.NRISocket)
	a := start(t, config)
	a.requireTracker(t)
	a.waitReady(t)
	runtime.BlockPluginSync().Unblock()
	return a, runtime
}

// TestVMEndsWithItsLauncher uses real processes and the kernel's tracker.
func TestVMEndsWithItsLauncher(t *testing.T) {
	config := testConfig(t)
	a, runtime := startTracking(t, config)
	l := launch(t, config, runtime, "vm")
	vm, gone := runIn(t, l.cgroup, emulator(t), "1000")
	a.awaitPhase(t, "vm", agentapi.PhaseActive, 1)
	_, strangerGone := runIn(t, config.Cgroup, emulator(t), "1000")
	if err := l.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	wantTerminated(t, vm, gone)
	a.awaitPhase(t, "vm", agentapi.PhaseDone, 0)
	wantAlive(t, strangerGone, "a stranger's process")
}
