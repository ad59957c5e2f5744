package throwaway_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/channel"
	"github.com/mooring-vm/mooring/hack/throwaway/vm"
)

// silentNode publishes a background node with a port that accepts connections and never answers. A
// hung node does so. The port of a dead node does so, too, if another node has taken it. This test
// owns its directory until it closes the returned Temp.
func silentNode(t *testing.T, owner vm.Process) *cache.Temp {
	t.Helper()
	t.Setenv(cache.EnvDir, t.TempDir())
	t.Setenv(throwaway.EnvNode, "")
	store, err := cache.Default()
	if err != nil {
		t.Fatal(err)
	}
	temp, err := store.Temp(t.Context(), "run")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	key, err := channel.NewKey(filepath.Join(temp.Dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	state, err := json.Marshal(vm.State{
		Address: l.Addr().String(), HostKey: string(ssh.MarshalAuthorizedKey(key.PublicKey())),
		Owner: owner,
	})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.WriteFile(filepath.Join(temp.Dir, "node.json"), state, 0o600),
		os.Symlink(temp.Dir, store.Dir("run", "current")))
	if err != nil {
		t.Fatal(err)
	}
	return temp
}

// The test's own listener stands for another node with the port of the dead one.
func TestLinkToADeadNode(t *testing.T) {
	temp := silentNode(t, vm.Process{})
	dir := temp.Dir + "-dead" // the directory of a killed owner stays
	if err := os.CopyFS(dir, os.DirFS(temp.Dir)); err != nil {
		t.Fatal(err)
	}
	t.Setenv(throwaway.EnvNode, dir)
	if _, err := throwaway.AttachCurrent(t.Context()); !errors.Is(err, throwaway.ErrNoNode) {
		t.Errorf("attaching: got %v, want %v", err, throwaway.ErrNoNode)
	}
	if err := temp.Close(); err != nil {
		t.Fatal(err)
	}
	if running, err := throwaway.Running(); running || err != nil {
		t.Errorf("running: got %v, %v", running, err)
	}
	if err := throwaway.StopCurrent(t.Context()); !errors.Is(err, throwaway.ErrNoNode) {
		t.Errorf("stopping: got %v, want %v", err, throwaway.ErrNoNode)
	}
}

func TestStopOfAHungNode(t *testing.T) {
	owner := exec.CommandContext(t.Context(), "sleep", "600")
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	process, err := vm.NewProcess(owner.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	temp := silentNode(t, process)
	defer temp.Close()
	if running, err := throwaway.Running(); !running || err != nil {
		t.Errorf("running: got %v, %v", running, err)
	}
	if _, _, err := throwaway.StartCurrent(t.Context(),
		throwaway.Options{Log: slog.New(slog.DiscardHandler)}); !errors.Is(err,
		throwaway.ErrRunning) {
		t.Errorf("starting a second one: got %v, want %v", err, throwaway.ErrRunning)
	}
	if err := throwaway.StopCurrent(t.Context()); err != nil {
		t.Error(err)
	}
	if err := owner.Wait(); err == nil {
		t.Error("the owner ended by itself")
	}
	if running, err := throwaway.Running(); running || err != nil {
		t.Errorf("running: got %v, %v", running, err)
	}
}
