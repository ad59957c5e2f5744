package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nri "github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/cli"
	"github.com/mooring-vm/mooring/shim/agent"
	"github.com/mooring-vm/mooring/shim/resize"
)

// client waits for the socket in a pod's directory and connects to it.
func (r *running) client(t *testing.T, uid string) *agent.Client {
	t.Helper()
	socket := filepath.Join(r.config.Root, "pods", uid, "agent.sock")
	eventually(t, "the pod's socket", func() bool {
		info, err := os.Stat(socket)
		return err == nil && info.Mode() == os.ModeSocket|0o666
	})
	link := filepath.Join(t.TempDir(), "s") // a socket's path is short
	if err := os.Symlink(socket, link); err != nil {
		t.Fatal(err)
	}
	return agent.New(link)
}

func memlockOf(t *testing.T, pid int) (soft, hard uint64) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_MEMLOCK, nil, &limit); err != nil {
		t.Fatal(err)
	}
	return limit.Cur, limit.Max
}

// setSoft lowers the soft limit, so that raising it again needs no capability.
func setSoft(t *testing.T, pid int, bytes uint64) {
	t.Helper()
	_, hard := memlockOf(t, pid)
	if err := unix.Prlimit(pid, unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: bytes, Max: hard},
		nil); err != nil {
		t.Fatal(err)
	}
}

// The agent starts with an unreadable request of a pod, and logs it.
func TestUnreadableRequestIsLogged(t *testing.T) {
	root, log := t.TempDir(), &syncBuffer{}
	open := func() {
		t.Helper()
		store, err := openPodStore(root, textLogger(log))
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	open()
	checkLines(t, log, 0, "unreadable requests")
	if err := os.WriteFile(filepath.Join(root, "wanted", "uid-of-a-pod"),
		[]byte(`{"version":9}`), 0o600); err != nil {
		t.Fatal(err)
	}
	open()
	checkLines(t, log, 1, "unreadable requests", "version 9", "requests of pod uid-of-a-pod")
}

// A pod changes the limit of its VM process over the socket, within the policy. The memory
// requirement of the pod makes the agent refuse a smaller container.
func TestPodSocket(t *testing.T) {
	const mi = uint64(1) << 20
	if _, hard := memlockOf(t, os.Getpid()); hard < 4*mi {
		skip(t, "this process may lock less than 4 MiB")
	}
	config := testConfig(t)
	a, runtime := startTracking(t, config)
	l := launch(t, config, runtime, "vm")
	n := a.client(t, "uid-vm")
	if err := n.RaiseLock(t.Context(), mi); err == nil ||
		!strings.Contains(err.Error(), "no VM process runs") {
		t.Errorf("error %v of a pod without VM", err)
	}
	vm, _ := runIn(t, l.cgroup, emulator(t), "1000")
	a.awaitPhase(t, "vm", "Active", 1)

	setSoft(t, vm.Process.Pid, mi)
	before, _ := memlockOf(t, l.process.Process.Pid)
	for _, err := range []error{n.RaiseLock(t.Context(), 17<<30),
		n.RaiseLock(t.Context(), resize.NoLimit)} {
		if refused, ok := errors.AsType[*agent.RefusedError](err); !ok ||
			refused.Code != podapi.CodeRefused {
			t.Errorf("error %v, want a refusal by policy", err)
		}
	}
	if err := n.RaiseLock(t.Context(), 3*mi); err != nil {
		t.Fatal(err)
	}
	observed, err := n.Limits(t.Context())
	if got, _ := memlockOf(t, vm.Process.Pid); got != 3*mi || observed.Lock != 3*mi || err != nil {
		t.Errorf("the VM may lock %d, and the pod sees %+v, %v: want 3Mi", got, observed, err)
	}
	if got, _ := memlockOf(t, l.process.Process.Pid); got != before {
		t.Errorf("the launcher may lock %d, want %d as before", got, before)
	}
	// The account has the launcher's memory limit.
	if _, out, _ := a.mooring("version"); !strings.Contains(out, "4Gi of 64Gi") {
		t.Errorf("mooring version shows another account:\n%s", out)
	}

	if err := n.RequireMemory(t.Context(), 2<<30); err != nil {
		t.Fatal(err)
	}
	update := func(limit uint64) error {
		_, err := runtime.UpdateContainer(context.Background(), &nri.UpdateContainerRequest{
			Pod: l.pod, Container: l.ctr, LinuxResources: &nri.LinuxResources{
				Memory: &nri.LinuxMemory{Limit: nri.Int64(int64(limit))}},
		})
		return err
	}
	if err := update(1 << 30); err == nil ||
		!strings.Contains(err.Error(), "to 1Gi: its VM needs 2Gi") {
		t.Errorf("update below the requirement: %v", err)
	}
	if err := update(2 << 30); err != nil {
		t.Errorf("update to the requirement: %v", err)
	}

	if code, out, errOut := a.mooring("resize", "vms/vm", "--vcpus", "4", "--kubeconfig="); code !=
		cli.ExitOK {
		t.Errorf("mooring resize: %d %s%s", code, out, errOut)
	}
	if w, err := n.Desired(t.Context()); w.VCPUs != 4 || w.Limits.Memory != 2<<30 || err != nil {
		t.Errorf("desired: %+v, %v", w, err)
	}
	if err := n.Report(t.Context(), podapi.Report{State: podapi.StateDone}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(config.Root, "pods", "uid-vm",
		"resize.json")); !strings.Contains(string(data), `"Done"`) {
		t.Errorf("the pod reads %s, %v", data, err)
	}
	if err := n.LowerLock(t.Context(), 2*mi); err != nil {
		t.Fatal(err)
	}
	if soft, hard := memlockOf(t, vm.Process.Pid); soft != 2*mi || hard != 2*mi {
		t.Errorf("the VM may lock %d (hard %d) after it was lowered, want 2Mi", soft, hard)
	}
}

func TestPodSocketOfTheNextAgent(t *testing.T) {
	config := testConfig(t)
	runtime := startRuntime(t, config.NRISocket)
	a := start(t, config)
	a.waitReady(t)
	runtime.BlockPluginSync().Unblock()
	launch(t, config, runtime, "vm")
	if _, err := a.client(t, "uid-vm").Limits(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	b := start(t, config)
	eventually(t, "an answer of the next agent", func() bool {
		_, err := b.client(t, "uid-vm").Desired(t.Context())
		refused, ok := errors.AsType[*agent.RefusedError](err)
		return ok && (refused.Code == podapi.CodeNoVM || refused.Code == podapi.CodeStarting)
	})
}
