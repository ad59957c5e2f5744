package kindcluster

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/hack/throwaway/channel"
)

// cluster is what the tests read of kind's configuration.
type clusterConfig struct {
	Nodes []struct {
		Role, Image string
	}
	Networking struct {
		DisableDefaultCNI bool
		APIServerPort     int `json:"apiServerPort"`
	}
	ContainerdConfigPatches []string
	KubeadmConfigPatches    []string
}

func render(t *testing.T, o Options) clusterConfig {
	t.Helper()
	text, err := Config(o)
	if err != nil {
		t.Fatal(err)
	}
	var c clusterConfig
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	for _, patch := range c.KubeadmConfigPatches {
		var object struct{ Kind string }
		if err := yaml.UnmarshalStrict([]byte(patch), new(map[string]any)); err != nil {
			t.Errorf("%v in patch\n%s", err, patch)
		}
		if err := yaml.Unmarshal([]byte(patch), &object); err != nil || object.Kind == "" {
			t.Errorf("a patch without a kind: %v\n%s", err, patch)
		}
	}
	return c
}

func TestConfigOfAPublishedImage(t *testing.T) {
	c := render(t, Options{Image: "kindest/node:v1.34.0", Workers: 2})
	var roles []string
	for _, n := range c.Nodes {
		roles = append(roles, n.Role)
		if n.Image != "kindest/node:v1.34.0" {
			t.Errorf("image %q", n.Image)
		}
	}
	if want := []string{"control-plane", "worker", "worker"}; !slices.Equal(roles, want) {
		t.Errorf("got %v, want %v", roles, want)
	}
	if c.Networking.DisableDefaultCNI || len(c.KubeadmConfigPatches) > 0 {
		t.Errorf("kind's own network and settings are changed: %+v", c)
	}
	if !strings.Contains(strings.Join(c.ContainerdConfigPatches, ""), "default_validator") {
		t.Error("required plugins are not checked")
	}
}

func TestConfigOfAnEmulatedHost(t *testing.T) {
	c := render(t, Options{Image: "i", OwnNetwork: true, Emulated: true})
	if len(c.Nodes) != 1 || !c.Networking.DisableDefaultCNI || c.Networking.APIServerPort != Port {
		t.Errorf("got %+v", c)
	}
	if len(c.KubeadmConfigPatches) != 4 {
		t.Errorf("got %d patches of kubeadm's configuration, want 4", len(c.KubeadmConfigPatches))
	}
}

// recorder is a Host that records commands and has no docker.
type recorder struct {
	commands []string
	pushed   []string
	fail     string // the command that fails
}

func (r *recorder) Run(_ context.Context, c channel.Command) error {
	command := strings.Join(c.Args, " ")
	r.commands = append(r.commands, command)
	if r.fail != "" && strings.HasPrefix(command, r.fail) {
		fmt.Fprint(c.Stderr, "no space")
		return &channel.ExitError{Args: c.Args, Code: 1}
	}
	return nil
}

func (r *recorder) Push(_ context.Context, local, remote string, _ fs.FileMode) error {
	r.pushed = append(r.pushed, local+" "+remote)
	return nil
}

func TestLoad(t *testing.T) {
	r := &recorder{}
	if err := Load(t.Context(), r, "bin/images/a.tar"); err != nil {
		t.Fatal(err)
	}
	want := []string{"kind load image-archive --name=mooring /tmp/mooring-a.tar",
		"rm -f /tmp/mooring-a.tar"}
	if !slices.Equal(r.commands, want) || len(r.pushed) != 1 {
		t.Errorf("got %q, pushed %q", r.commands, r.pushed)
	}
	r = &recorder{fail: "kind load"}
	err := Load(t.Context(), r, "bin/images/a.tar")
	if err == nil || !strings.Contains(err.Error(), "loading bin/images/a.tar") ||
		!strings.Contains(err.Error(), "no space") {
		t.Errorf("got %v", err)
	}
}

func TestMachine(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := Machine{Kind: "/bin/echo"}
	if err := m.Push(t.Context(), from, to, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(to); err != nil || string(got) != "x" {
		t.Errorf("pushed %q, %v", got, err)
	}
	got, err := output(t.Context(), m, nil, "kind", "get", "clusters")
	if err != nil || got != "get clusters\n" {
		t.Errorf("kind runs from another path: got %q, %v", got, err)
	}
	if _, err := output(t.Context(), m, nil, "sh", "-c", "echo why >&2; exit 3"); err == nil ||
		!strings.Contains(err.Error(), "why") {
		t.Errorf("got %v, want standard error in the error", err)
	}
}
