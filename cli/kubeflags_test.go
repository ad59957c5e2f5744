package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestKubectlFlags expects kubectl's flags for the connection: each of them selects a cluster.
func TestKubectlFlags(t *testing.T) {
	var got []string
	command := testProgram(nil, nil).Command()
	command.PersistentFlags().VisitAll(func(f *pflag.Flag) { got = append(got, f.Name) })
	for _, flag := range []string{"as", "as-group", "as-uid", "as-user-extra",
		"certificate-authority", "client-certificate", "client-key", "cluster", "context",
		"insecure-skip-tls-verify", "request-timeout", "server", "tls-server-name", "token",
		"user"} {
		if !slices.Contains(got, flag) || !slices.Contains(kubeFlagNames(), flag) {
			t.Errorf("no flag --%s", flag)
		}
	}
	if slices.Contains(kubeFlagNames(), "socket") {
		t.Error("--socket selects a cluster")
	}
}

// TestServerAndToken asks a server without a kubeconfig, beside an agent of the machine.
func TestServerAndToken(t *testing.T) {
	var header http.Header
	server := httptest.NewTLSServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			header = r.Header
			http.NotFound(w, r)
		}))
	defer server.Close()
	a := startAgent(t)
	var out, errOut bytes.Buffer
	program := testProgram(&out, &errOut)
	program.defaultSocket = a.socket
	code := program.Run(t.Context(), []string{"ps", "--server", server.URL, "--token", "abc",
		"--insecure-skip-tls-verify", "--as", "eve", "--as-uid", "7"})
	if code != ExitNotFound || !strings.Contains(errOut.String(), "install Mooring first") {
		t.Errorf("exit code %d: %s%s", code, out.String(), errOut.String())
	}
	for key, want := range map[string]string{"Authorization": "Bearer abc",
		"Impersonate-User": "eve", "Impersonate-Uid": "7"} {
		if got := header.Get(key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

// TestCompletionOfKubeconfig expects the names in the kubeconfig.
func TestCompletionOfKubeconfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	config := "{apiVersion: v1, kind: Config, contexts: [{name: one, context: {}}], " +
		"clusters: [{name: two, cluster: {}}], users: [{name: three, user: {}}]}"
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
	for flag, want := range map[string]string{"--context": "one\n", "--cluster": "two\n",
		"--user": "three\n"} {
		var out, errOut bytes.Buffer
		testProgram(&out, &errOut).Run(t.Context(), []string{"__complete", "ps", flag, ""})
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s: %q, want %q", flag, out.String(), want)
		}
	}
}
