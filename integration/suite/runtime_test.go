package suite

import (
	"context"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"

	containerd "github.com/containerd/containerd/v2/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/util/version"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mooring-vm/mooring/integration/cri"
	"github.com/mooring-vm/mooring/integration/node"
)

// runtime is the container runtime of the node, as it says itself.
type runtime struct {
	name, version string
	nri           string // of the NRI module that is in it, "" where it does not say
}

// features are what some runtimes do and others do not. Tests expect exactly
// what is here: a runtime that does more or less than the table says fails them.
type features struct {
	// validator: the pod's annotation for required plugins is heeded.
	validator bool
	// failurePolicy: a request that the agent leaves unanswered fails. Else it goes
	// on without the agent.
	failurePolicy bool
	// tellsRlimits: plugins are told what limits the container's spec has.
	tellsRlimits bool
	// idmaps: pods in a user namespace need a handler with idmapped mounts. Without
	// it the runtime changes the owner of files, and any handler does.
	idmaps bool
}

// features by the version of the runtime, and of the NRI module that is in it.
func (r runtime) features(t *testing.T) features {
	t.Helper()
	f := features{failurePolicy: r.nri != "" && atLeast(t, r.nri, "0.12.4")}
	switch r.name {
	case "containerd":
		f.validator = atLeast(t, r.version, "2.2")
		f.tellsRlimits = atLeast(t, r.version, "2.4")
		f.idmaps = atLeast(t, r.version, "2.0")
	case "cri-o":
	default:
		t.Fatalf("nothing is known of the runtime %q", r.name)
	}
	return f
}

// hasUserNamespaces reports whether pods can have one under a handler.
func (f fixture) hasUserNamespaces(t *testing.T, handler string) bool {
	t.Helper()
	since, known := map[string]string{"runc": "1.2", "crun": "1.9"}[handler]
	if !known {
		t.Fatalf("nothing is known of the handler %q", handler)
	}
	return !f.runtime(t).features(t).idmaps || atLeast(t, f.ociVersion(t, handler), since)
}

func atLeast(t *testing.T, have, want string) bool {
	t.Helper()
	v, err := version.ParseGeneric(have)
	if err != nil {
		t.Fatal(err)
	}
	return v.AtLeast(version.MustParseGeneric(want))
}

func (f fixture) runtime(t *testing.T) runtime {
	t.Helper()
	r, err := detected()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// detected asks the shared node once.
var detected = sync.OnceValues(func() (runtime, error) {
	n, err := node.Shared()
	if err != nil {
		return runtime{}, err
	}
	c, err := cri.Connect(n)
	if err != nil {
		return runtime{}, err
	}
	defer c.Close()
	v, err := c.Version(context.Background(), &runtimeapi.VersionRequest{})
	if err != nil {
		return runtime{}, err
	}
	r := runtime{name: v.RuntimeName, version: strings.TrimPrefix(v.RuntimeVersion, "v")}
	r.nri, err = nriVersion(n)
	return r, err
})

// containerdVersion asks containerd itself, not its CRI plugin.
func (f fixture) containerdVersion(t *testing.T) *version.Version {
	t.Helper()
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		return f.Dial(ctx, "unix", f.ContainerdSocket())
	}
	c, err := containerd.New(f.ContainerdSocket(), containerd.WithDialOpts([]grpc.DialOption{
		grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()),
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	found, err := c.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v, err := version.ParseGeneric(found.Version)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// nriVersion reads what Go or Debian noted when containerd was built.
func nriVersion(n node.Node) (string, error) {
	const script = `binary=$(readlink -f /proc/$(systemctl show --property=MainPID --value containerd.service)/exe)
LC_ALL=C grep -aoE 'github.com/containerd/nri[[:space:]]v[0-9.]+' "$binary" ||
	dpkg-query --search "$binary" | cut -d: -f1 | xargs dpkg-query --show --showformat='${Static-Built-Using} ${Built-Using}' | grep -oE 'containerd-nri \(= [0-9.]+' || true`
	out, err := n.Output(context.Background(), "sh", "-c", script)
	return regexp.MustCompile(`[0-9.]+$`).FindString(out), err
}

// ociVersion is that of the program behind a handler.
func (f fixture) ociVersion(t *testing.T, handler string) string {
	t.Helper()
	first, _, _ := strings.Cut(f.output(t, handler, "--version"), "\n")
	return strings.TrimPrefix(first, handler+" version ")
}
