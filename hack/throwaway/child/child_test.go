package child

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// builderEnv names a directory. With it, the test binary runs a command in this directory.
const builderEnv = "MOORING_TEST_BUILDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(builderEnv); dir != "" {
		cmd := Isolated(context.Background(), "sh", "-c", `mount -t tmpfs none "$0" && touch "$0/inside"
			sleep 611 & setsid sleep 611 & echo ready; wait`, dir)
		cmd.Stdout = os.Stdout
		fmt.Fprintln(os.Stderr, Run(cmd))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// The command of a killed process has a mount and children. One child has left its process group.
func TestKilledBuilderLeavesNothing(t *testing.T) {
	if !mayIsolate(t.Context()) {
		t.Skip("needs to be allowed to make mount and PID namespaces")
	}
	dir := t.TempDir()
	builder := exec.CommandContext(t.Context(), os.Args[0])
	builder.Env = append(os.Environ(), builderEnv+"="+dir)
	builder.Stderr = os.Stderr
	out, err := builder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := builder.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the builder said %q, %v", line, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "inside")); err == nil {
		t.Error("the command's mount is seen outside")
	}
	waitForSleepers(t, 2)
	if err := builder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = builder.Wait()
	waitForSleepers(t, 0)
}

func waitForSleepers(t *testing.T, want int) {
	t.Helper()
	for deadline := time.After(10 * time.Second); len(isolated(t, "sleep\x00611\x00")) != want; {
		select {
		case <-deadline:
			t.Fatalf("children that run: %v, want %d", isolated(t, "sleep\x00611\x00"), want)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// isolated lists the processes with this command line outside of the test's PID namespace.
func isolated(t *testing.T, cmdline string) []string {
	t.Helper()
	ours, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range files {
		b, _ := os.ReadFile(f) // it may have ended
		ns, _ := os.Readlink(filepath.Join(filepath.Dir(f), "ns/pid"))
		if string(b) == cmdline && ns != ours {
			found = append(found, strings.Split(f, "/")[2])
		}
	}
	return found
}

func TestContextEndsTheGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := Command(ctx, "sh", "-c",
		`(trap "echo tidied; exit" TERM; echo ready; for i in $(seq 300); do sleep 0.1; done); :`)
	out, w, err := os.Pipe() // StdoutPipe would end with the command
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	_ = out.SetReadDeadline(time.Now().Add(10 * time.Second))
	cmd.Stdout = w
	exited, err := Start(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	in := bufio.NewReader(out)
	if line, err := in.ReadString('\n'); err != nil {
		t.Fatalf("got %q, %v", line, err)
	}
	cancel()
	if line, err := in.ReadString('\n'); err != nil || line != "tidied\n" {
		t.Errorf("got %q, %v, want it to clean up", line, err)
	}
	if err := <-exited; err == nil {
		t.Error("a command that was ended returned no error")
	}
}

func TestProgramThatIsNotThere(t *testing.T) {
	if err := Run(Command(t.Context(), "/nonexistent")); err == nil {
		t.Error("no error")
	}
}
