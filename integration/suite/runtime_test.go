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

// runtime is the container runtime of the node, by its own information.
type runtime struct {
	name, version string
	nri           string // version of its NRI module, "" if unknown
}

// features are the features that not all runtimes have. The tests expect exactly these: a
// runtime with more or fewer features fails.
type features struct {
	// validator: the runtime obeys the pod's annotation for required plugins.
	validator bool
	// failurePolicy: a request that the agent does not answer fails. Otherwise the runtime
	// continues without the agent.
	failurePolicy bool
	// passesRlimits: plugins get the rlimits of the container's spec.
	passesRlimits bool
	// idmaps: pods in a user namespace need a handler with idmapped mounts. Runtimes without this
	// feature change the owner of files, so every handler works.
	idmaps bool
}

// features depend on the versions of the runtime and of its NRI module.
func (r runtime) features(t *testing.T) features {
	t.Helper()
	f := features{failurePolicy: r.nri != "" && atLeast(t, r.nri, "0.12.4")}
	switch r.name {
	case "containerd":
		f.validator = atLeast(t, r.version, "2.2")
		f.passesRlimits = atLeast(t, r.version, "2.4")
		f.idmaps = atLeast(t, r.version, "2.0")
	case "cri-o":
	default:
		t.Fatalf("unknown runtime %q", r.name)
	}
	return f
}

// hasUserNamespaces reports whether pods can have one under a handler.
func (f fixture) hasUserNamespaces(t *testing.T, handler string) bool {
	t.Helper()
	since, known := map[string]string{"runc": "1.2", "crun": "1.9"}[handler]
	if !known {
		t.Fatalf("unknown handler %q", handler)
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

// detected queries the shared node once.
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

// nriVersion reads the NRI version from containerd's program or from its Debian package.
func nriVersion(n node.Node) (string, error) {
	const script = `binary=$(readlink -f /proc/$(systemctl show --property=MainPID --value containerd.service)/exe)
LC_ALL=C grep -aoE 'github.com/containerd/nri[[:space:]]v[0-9.]+' "$binary" ||
	dpkg-query --search "$binary" | cut -d: -f1 | xargs dpkg-query --show --showformat='${Static-Built-Using} ${Built-Using}' | grep -oE 'containerd-nri \(= [0-9.]+' || true`
	out, err := n.Output(context.Background(), "sh", "-c", script)
	return regexp.MustCompile(`[0-9.]+$`).FindString(out), err
}

// ociVersion returns the version of a handler's program.
func (f fixture) ociVersion(t *testing.T, handler string) string {
	t.Helper()
	first, _, _ := strings.Cut(f.output(t, handler, "--version"), "\n")
	return strings.TrimPrefix(first, handler+" version ")
}
