package kubetest

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/hack/kube"
)

// ownerEnv turns the test binary into a process that owns a control plane.
const ownerEnv = "MOORING_TEST_OWNER"

// own starts a control plane with a controller, prints its log directory, and waits for SIGKILL.
func own() {
	ctx := context.Background()
	c, err := kube.Start(ctx, kube.Options{Log: logger()})
	if err == nil {
		_, err = c.StartControllers(ctx, quotaController)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(filepath.Dir(c.Logs()[0]))
	select {}
}

// TestKilledOwnerLeavesNothing kills the process of a test run. Its control plane must still end.
func TestKilledOwnerLeavesNothing(t *testing.T) {
	dir, kill := startOwner(t)
	if diff := cmp.Diff([]string{"etcd", "kube-apiserver", "kube-controller-manager"},
		programsOf(t, dir)); diff != "" {
		t.Fatalf("programs (-want +got):\n%s", diff)
	}
	kill()
	eventually(t, "the programs to end", func() bool { return len(programsOf(t, dir)) == 0 })

	next, err := kube.Start(t.Context(), kube.Options{Log: logger()})
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the dead owner's folder is still there: %v", err)
	}
}

func startOwner(t *testing.T) (dir string, kill func()) {
	t.Helper()
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerEnv+"=1")
	owner.Stderr = os.Stderr
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = owner.Process.Kill()
		_ = owner.Wait()
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the owner could not start a control plane: %v", err)
	}
	return strings.TrimSpace(line), kill
}

// programsOf returns the names of processes with dir in their arguments.
func programsOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		cmdline, err := os.ReadFile(f) // fails for an ended process, empty for a zombie
		if err == nil && strings.Contains(string(cmdline), dir) {
			name, _, _ := strings.Cut(string(cmdline), "\x00")
			names = append(names, filepath.Base(name))
		}
	}
	slices.Sort(names)
	return names
}

func TestCredentialsAreAskedFor(t *testing.T) {
	config := Start(t).Config()
	client, err := rest.HTTPClientFor(rest.AnonymousClientConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"healthz":                       http.StatusOK,
		"version":                       http.StatusUnauthorized,
		"api/v1/namespaces":             http.StatusUnauthorized,
		"apis/events.k8s.io/v1/events":  http.StatusUnauthorized,
		"api/v1/namespaces/default":     http.StatusUnauthorized,
		"healthz/poststarthook/unknown": http.StatusUnauthorized,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			config.Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("GET /%s without credentials: %s, want %d", path, response.Status, want)
		}
	}
}

// TestApplyIsStrict shows that applying a manifest with a mistake fails.
func TestApplyIsStrict(t *testing.T) {
	c := Start(t)
	for name, manifest := range map[string]string{
		"unknown field": "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: " +
			"default}, dta: {}}",
		"unknown kind": "{apiVersion: v1, kind: ConfgMap, metadata: {name: a, namespace: default}}",
		"bad value":    "{apiVersion: v1, kind: Namespace, metadata: {name: Capital}}",
		"no YAML":      "{",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := c.Apply(t.Context(), strings.NewReader(manifest)); err == nil {
				t.Error("applied")
			}
		})
	}
}

func TestKubeconfigNeedsTheAccount(t *testing.T) {
	if _, err := Start(t).Kubeconfig(t.Context(), "default", "nobody"); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want NotFound", err)
	}
}
