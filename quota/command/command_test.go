package command

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/internal/buildinfo"
)

// execute runs the command line and returns its output.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := Command(buildinfo.Info{Version: "v1.2.3"}, io.Discard)
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestCommandErrors(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"log format": {[]string{"--log-format=xml"},
			`--log-format "xml": want text or json`},
		"log level":   {[]string{"--log-level=loud"}, `"loud"`},
		"an argument": {[]string{"vms"}, "vms"},
		"mode":        {[]string{"--mode=watch"}, `--mode "watch": want observe or enforce`},
		"no workers":  {[]string{"--workers=0"}, "--workers 0: want 1 or more"},
		"prefix without a slash": {[]string{"--annotation-prefix=example.com"},
			`--annotation-prefix "example.com": want a domain and a slash`},
		"prefix of a slash": {[]string{"--annotation-prefix=/"}, `--annotation-prefix "/"`},
		"manager's annotation": {[]string{"--manager-annotation=a b"},
			`--manager-annotation "a b"`},
		"manager's label": {[]string{"--manager-label=-"}, `--manager-label "-"`},
		"webhook without port": {[]string{"--webhook-listen=localhost"},
			"--webhook-listen: address localhost: missing port"},
		"webhook's name": {[]string{"--webhook-listen=:9443", "--webhook-dns-name=a_b"},
			`--webhook-dns-name "a_b": want a DNS name`},
		"webhook's Secret": {[]string{"--webhook-listen=:9443", "--webhook-secret=A"},
			`--webhook-secret "A": want the name of an object`},
		"webhook's files": {[]string{"--webhook-listen=:9443", "--webhook-cert-dir=certs"},
			`--webhook-cert-dir "certs": want an absolute path`},
		"webhook's Service": {[]string{"--webhook-listen=:9443", "--webhook-service=A"},
			`--webhook-service "A": want the name of an object`},
		"no kubeconfig": {[]string{"--kubeconfig=/nonexistent"},
			"start the controller: read kubeconfig"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := execute(t, tt.args...)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	out, err := execute(t, "version")
	if err != nil || !strings.HasPrefix(out, "mooring-controller v1.2.3") {
		t.Errorf("got %q, %v", out, err)
	}
}

// TestDocumentedFlagsExist checks every flag named in the documentation.
func TestDocumentedFlagsExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "quota.md"))
	if err != nil {
		t.Fatal(err)
	}
	flags := Command(buildinfo.Info{}, io.Discard).Flags()
	of := map[string]bool{"server-side": true, "field-selector": true} // flags of kubectl
	for _, found := range regexp.MustCompile(`--([a-z][a-z-]+)`).FindAllStringSubmatch(string(text),
		-1) {
		if flags.Lookup(found[1]) == nil && !of[found[1]] {
			t.Errorf("--%s does not exist", found[1])
		}
	}
}
