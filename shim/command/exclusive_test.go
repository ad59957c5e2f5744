package command

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/internal/buildinfo"
)

// envHoldLock makes the test binary lock the directory and wait for its end.
const envHoldLock = "MOORING_TEST_HOLD_LOCK"

func TestHoldLock(t *testing.T) {
	dir := os.Getenv(envHoldLock)
	if dir == "" {
		return // the helper process of TestOneShim
	}
	if _, err := lockPod(t.Context(), dir, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdout.WriteString("locked\n")
	select {}
}

// Only one shim serves a pod. The kernel frees the lock of a killed one.
func TestOneShim(t *testing.T) {
	dir := t.TempDir()
	holder := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHoldLock$")
	holder.Env = append(os.Environ(), envHoldLock+"="+dir)
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, len("locked\n"))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var log bytes.Buffer
	waits := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		cancel()
		return log.Write(p)
	}), nil))
	if _, err := lockPod(ctx, dir, waits); !errors.Is(err, context.Canceled) ||
		!strings.Contains(log.String(), "another mooring-shim") {
		t.Errorf("%v, %s, want to wait for the other shim", err, &log)
	}
	_ = holder.Process.Kill()
	_ = holder.Wait()
	release, err := lockPod(t.Context(), dir, waits)
	if err != nil {
		t.Fatal(err)
	}
	release()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A second shim takes over soon after the end of the first.
func TestNextShim(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		release, err := lockPod(t.Context(), dir, log)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Hour, release)
		began := time.Now()
		release, err = lockPod(t.Context(), dir, log)
		if waited := time.Since(began); err != nil || waited < time.Hour ||
			waited > time.Hour+lockInterval {
			t.Errorf("locked after %s, %v", waited, err)
		}
		release()
	})
}

// The program waits for the end of the other shim before it opens its journal and libvirt.
func TestRunWaitsForTheOtherShim(t *testing.T) {
	dir := t.TempDir()
	release, err := lockPod(t.Context(), dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := Command(buildinfo.Info{}, writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("another mooring-shim")) {
			release()
		}
		return log.Write(p)
	}))
	cmd.SetArgs([]string{"run", "--agent=" + filepath.Join(dir, "agent.sock"),
		"--journal=" + filepath.Join(dir, "none")})
	err = cmd.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--journal: ") ||
		!strings.Contains(log.String(), "another mooring-shim") {
		t.Errorf("%v, log %q, want to wait and then to open the journal", err, log.String())
	}
}

func TestLockWithoutDirectory(t *testing.T) {
	release, err := lockPod(
		t.Context(), filepath.Join(t.TempDir(), "none"), slog.New(slog.DiscardHandler),
	)
	if err != nil {
		t.Fatal(err)
	}
	release()
}
