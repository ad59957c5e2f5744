package throwaway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/hack/throwaway/channel"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
	"github.com/mooring-vm/mooring/hack/throwaway/vm"
)

// ownerEnv makes the test binary the owner process of a node.
const ownerEnv = "MOORING_TEST_OWNER"

func TestMain(m *testing.M) {
	if os.Getenv(ownerEnv) != "" {
		ownNode()
		return
	}
	os.Exit(m.Run())
}

// ownNode starts a node, prints its directory and the pid of its QEMU, and waits for SIGKILL.
func ownNode() {
	n, err := throwaway.Start(context.Background(), throwaway.Options{
		Spec: image.SpecFromEnv(), Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(n.Dir(), n.QEMU())
	select {}
}

// A killed owner cannot clean up.
func TestNodeEndsWithKilledOwner(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: boots a node")
	}
	before := machineState(t)
	owner, dir, qemu := startOwner(t)
	n, err := throwaway.Attach(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	up := make(chan struct{})
	running := make(chan error, 1)
	go func() {
		running <- n.Run(context.Background(), channel.Command{
			Args: []string{"sh", "-c", "echo up; sleep 600"}, Stdout: closer{up},
		})
	}()
	<-up
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-running; !errors.Is(err, channel.ErrLost) {
		t.Errorf("the running command: got %v, want ErrLost", err)
	}
	waitFor(t, "QEMU to end", func() bool { return !alive(qemu) })
	if after := machineState(t); after != before {
		t.Errorf("the machine has changed:\nbefore:\n%s\nafter:\n%s", before, after)
	}
}

type closer struct{ c chan struct{} }

func (c closer) Write(p []byte) (int, error) {
	close(c.c)
	return len(p), nil
}

func startOwner(t *testing.T) (owner *exec.Cmd, dir string, qemu int) {
	t.Helper()
	owner = exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerEnv+"=1")
	owner.Stderr = os.Stderr
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = owner.Process.Kill()
		_ = owner.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if errors.Is(err, io.EOF) {
		t.Fatal("the owner could not start a node")
	}
	dir, pid, ok := strings.Cut(strings.TrimSpace(line), " ")
	qemu, err = strconv.Atoi(pid)
	if !ok || err != nil {
		t.Fatalf("unexpected line from the owner: %q", line)
	}
	return owner, dir, qemu
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// machineState returns the mounts, the routes, and the sysctls often changed by container software.
// A node must not change them.
func machineState(t *testing.T) string {
	t.Helper()
	files := []string{"/proc/self/mounts", "/proc/net/route", "/proc/sys/vm/overcommit_memory",
		"/proc/sys/kernel/panic",
		"/proc/sys/kernel/panic_on_oops", "/proc/sys/net/ipv4/ip_forward"}
	var b strings.Builder
	for _, f := range files {
		content, err := os.ReadFile(f)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s:\n%s", f, withoutTestMounts(string(content)))
	}
	return b.String()
}

// withoutTestMounts removes mounts below the temporary directory. Other tests make them, and a node
// never does.
func withoutTestMounts(mounts string) string {
	var b strings.Builder
	for line := range strings.Lines(mounts) {
		if at := strings.Fields(line); len(at) > 1 &&
			strings.HasPrefix(at[1], filepath.Clean(os.TempDir())+"/") {
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}

// TestProbeBoots runs the probe's guest under TCG, because few machines have KVM. The probe finds
// its line on the console of a working guest.
func TestProbeBoots(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: boots a kernel")
	}
	img, err := throwaway.Build(t.Context(), throwaway.Options{Spec: image.SpecFromEnv(),
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if !vm.Boots(ctx, img, vm.TCG) {
		t.Error("the probe calls a working accelerator unusable")
	}
}
