package quota

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/integration/controllerprogram"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// system is the controller's namespace.
const system = "mooring-system"

// program is mooring-controller in its own process.
type program struct {
	plane    *kube.ControlPlane
	name     string
	args     []string
	listen   string
	webhooks string        // host and port, empty without webhooks
	process  *kube.Process // nil while stopped
}

// start returns the shared cluster and runs the controller in it until t ends, with these
// additional arguments. Its log is kept with the cluster's.
func start(t *testing.T, args ...string) (*kubevirttest.Cluster, *program) {
	t.Helper()
	c := kubevirttest.Start(t)
	p := install(t, c, controllerprogram.Name)
	p.args = append(p.args, args...)
	p.start(t)
	return c, p
}

// install applies install.yaml, and controller-role.yaml for a controller in mode enforce.
func install(t *testing.T, c *kubevirttest.Cluster, name string) *program {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}
	if err := c.Client.Create(t.Context(), ns); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	roles := []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
	for _, o := range append(
		manifests(t, "install.yaml", append(roles, "CustomResourceDefinition", "Secret")...),
		manifests(t, "controller-role.yaml", append(roles, "ValidatingAdmissionPolicy",
			"ValidatingAdmissionPolicyBinding")...)...,
	) {
		apply(t, c, o)
	}
	kubeconfig, err := c.Plane.Kubeconfig(t.Context(), system, "mooring-controller")
	if err != nil {
		t.Fatal(err)
	}
	port, err := kube.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{plane: c.Plane, name: name, listen: fmt.Sprintf("127.0.0.1:%d", port)}
	t.Cleanup(func() { p.stop(t) })
	p.args = []string{controllerprogram.Name, "--mode=enforce", "--kubeconfig=" + kubeconfig,
		"--lease-namespace=" + system, "--listen=" + p.listen, "--log-level=debug"}
	return p
}

// start starts the controller and returns when it is ready.
func (p *program) start(t *testing.T) {
	t.Helper()
	var err error
	if p.process, err = p.plane.Start(p.name, os.Args[0], p.args...); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the controller to be ready", func() error {
		_, err := p.get(t.Context(), "/readyz")
		return err
	})
}

// stop sends SIGTERM to a running controller and waits for its end.
func (p *program) stop(t *testing.T) {
	t.Helper()
	if p.process == nil {
		return
	}
	if err := p.process.Stop(); err != nil {
		t.Errorf("ending the controller: %v", err)
	}
	p.process = nil
}

// kill sends SIGKILL to the running controller and waits for its end.
func (p *program) kill(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(p.process.Pid(), syscall.SIGKILL); err != nil {
		t.Errorf("killing the controller: %v", err)
	}
	_ = p.process.Stop() // reports the kill as an error
	p.process = nil
}

func (p *program) get(ctx context.Context, path string) (string, error) {
	return kube.Get(ctx, "http://"+p.listen+path)
}
