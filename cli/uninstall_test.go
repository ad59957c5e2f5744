package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// uninstallRun runs the command without an agent.
func uninstallRun(ctx context.Context, args ...string) result {
	var out, errOut bytes.Buffer
	code := testProgram(&out, &errOut).Run(ctx, append([]string{"uninstall"}, args...))
	return result{code, out.String(), errOut.String()}
}

func TestUninstallUsage(t *testing.T) {
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, "")
	tests := map[string]struct {
		args []string
		code int
		want string
	}{
		"an argument":       {[]string{"vms"}, ExitUsage, "got 1 arguments, want none"},
		"cluster on a node": {[]string{"--node", "--namespace=system"}, ExitUsage, "--namespace"},
		"quota on a node": {[]string{"--node", "--manager-label=a"}, ExitUsage,
			"--manager-label"},
		"node in a cluster": {[]string{"--host=/host"}, ExitUsage, "--host"},
		"no namespace": {[]string{"--namespace=A"}, ExitUsage,
			`--namespace "A": want a namespace name`},
		"no prefix":    {[]string{"--annotation-prefix=a"}, ExitUsage, `--annotation-prefix "a"`},
		"no such file": {[]string{"--kubeconfig=/nonexistent"}, ExitFailure, "/nonexistent"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := uninstallRun(t.Context(), tt.args...)
			if got.code != tt.code || !strings.Contains(got.errOut, tt.want) || got.out != "" {
				t.Errorf("exit code %d, printed %q and %q", got.code, got.out, got.errOut)
			}
		})
	}
}

func TestUninstallNode(t *testing.T) {
	host := t.TempDir()
	pins := filepath.Join(host, "sys/fs/bpf/mooring/v1")
	for _, dir := range []string{pins, filepath.Join(host, "etc/mooring")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	node := []string{"--node", "--host=" + host}
	got := uninstallRun(t.Context(), append(node, "--dry-run")...)
	if got.code != ExitOK || got.out != "would remove /sys/fs/bpf/mooring\nleft: /etc/mooring\n" {
		t.Errorf("dry run: exit code %d, printed %q", got.code, got.out)
	}
	got = uninstallRun(t.Context(), node...)
	if got.code != ExitOK || got.out != "remove /sys/fs/bpf/mooring: done\nleft: /etc/mooring\n" {
		t.Errorf("exit code %d, printed %q", got.code, got.out)
	}
	if _, err := os.Stat(pins); err == nil {
		t.Error("the pins are there")
	}
}

// A pod of a DaemonSet that ended by itself would be started anew.
func TestUninstallStays(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan result, 1)
	out := &notingWriter{wrote: make(chan struct{})}
	go func() {
		program := testProgram(&bytes.Buffer{}, &bytes.Buffer{})
		program.Out = out
		ended <- result{code: program.Run(ctx,
			[]string{"uninstall", "--node", "--host=" + t.TempDir(), "--stay"})}
	}()
	<-out.wrote
	select {
	case got := <-ended:
		t.Fatalf("it has ended, with exit code %d", got.code)
	default:
	}
	cancel()
	if got := <-ended; got.code != ExitOK {
		t.Errorf("exit code %d", got.code)
	}
}

// notingWriter says that something was written.
type notingWriter struct {
	wrote chan struct{}
	once  bool
}

func (w *notingWriter) Write(p []byte) (int, error) {
	if !w.once {
		close(w.wrote)
		w.once = true
	}
	return len(p), nil
}

// The pages name no flag that the command has not.
func TestUninstallFlagsInDocs(t *testing.T) {
	program := testProgram(&bytes.Buffer{}, &bytes.Buffer{})
	flags := program.uninstallCommand().Flags()
	// Helm's, and those of node configure
	others := map[string]bool{"reset-then-reuse-values": true, "set": true, "no-hooks": true,
		"undo": true, "restart": true}
	found := 0
	for _, flag := range regexp.MustCompile(`--([a-z][a-z-]+)`).FindAllStringSubmatch(
		readDoc(t, "docs", "how-to", "uninstall.md"), -1) {
		found++
		if flags.Lookup(flag[1]) == nil && !others[flag[1]] && flag[1] != "uninstall" {
			t.Errorf("--%s does not exist", flag[1])
		}
	}
	if found < 10 {
		t.Errorf("%d flags found", found)
	}
}
