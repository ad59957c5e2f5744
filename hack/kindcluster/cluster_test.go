package kindcluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
	c := render(t, Options{Image: "kindest/node:v1.35.0", Workers: 2})
	var roles []string
	for _, n := range c.Nodes {
		roles = append(roles, n.Role)
		if n.Image != "kindest/node:v1.35.0" {
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

func (r *recorder) Share(
	_ context.Context, file string,
) (path string, remove func() error, err error) {
	return "/copy/" + file, func() error { r.commands = append(r.commands, "remove"); return nil }, nil
}

func TestLoad(t *testing.T) {
	r := &recorder{}
	if err := Load(t.Context(), r, "bin/images/a.tar"); err != nil {
		t.Fatal(err)
	}
	want := []string{"kind load image-archive --name=mooring /copy/bin/images/a.tar", "remove"}
	if !slices.Equal(r.commands, want) {
		t.Errorf("got %q, want %q", r.commands, want)
	}
	r = &recorder{fail: "kind load"}
	err := Load(t.Context(), r, "bin/images/a.tar")
	if err == nil || !strings.Contains(err.Error(), "loading bin/images/a.tar") ||
		!strings.Contains(err.Error(), "no space") {
		t.Errorf("got %v", err)
	}
	if last := r.commands[len(r.commands)-1]; last != "remove" {
		t.Errorf("after a failed load: %q", last)
	}
}

// starting is a Host whose Service kubernetes refuses the first requests.
type starting struct {
	recorder
	refusals int
}

func (s *starting) Run(ctx context.Context, c channel.Command) error {
	s.fail = ""
	if slices.Contains(c.Args, "--raw=/version") && s.refusals > 0 {
		s.refusals--
		s.fail = "docker exec"
	}
	err := s.recorder.Run(ctx, c)
	if slices.Contains(c.Args, "service") {
		fmt.Fprint(c.Stdout, "10.96.0.1")
	}
	return err
}

func TestAwaitService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &starting{refusals: 2}
		if err := AwaitService(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		last := s.commands[len(s.commands)-1]
		if len(s.commands) != 4 || !strings.HasSuffix(last, "--server=https://10.96.0.1") {
			t.Errorf("got %q", s.commands)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := AwaitService(ctx, &starting{refusals: 1000})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
	})
}

func TestMachine(t *testing.T) {
	m := Machine{Kind: "/bin/sh", Kubeconfig: "/of/the/cluster"}
	got, err := output(t.Context(), m, nil, "kind", "-c", "echo $KUBECONFIG")
	if err != nil || got != "/of/the/cluster\n" {
		t.Errorf("kind runs from another path, with its own kubeconfig: got %q, %v", got, err)
	}
	path, remove, err := m.Share(t.Context(), "a.tar")
	if err != nil || !filepath.IsAbs(path) || filepath.Base(path) != "a.tar" {
		t.Errorf("shared as %q, %v", path, err)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if _, err := output(t.Context(), m, nil, "sh", "-c", "echo why >&2; exit 3"); err == nil ||
		!strings.Contains(err.Error(), "why") {
		t.Errorf("got %v, want standard error in the error", err)
	}
}
