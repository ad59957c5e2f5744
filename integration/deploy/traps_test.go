package deploy

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	kubetest "github.com/mooring-vm/mooring/integration/kube"
)

// dryRunInstall returns the output of an install as a server-side dry run.
func dryRunInstall(t *testing.T, config *rest.Config, args ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{
		"install", "mooring", chart, "--namespace=" + system,
		"--kubeconfig=" + kubeconfig(t, config), "--dry-run=server", "--take-ownership",
	}, args...)...)
}

// TestKubeVirtsNamespaceIsLookedUp: if the values omit KubeVirt's namespace, the policy would
// refuse launchers. So the chart reports it.
func TestKubeVirtsNamespaceIsLookedUp(t *testing.T) {
	config := startKubeVirt(t).Plane.Config()
	const elsewhere = `--set-json=annotations.setters=[{"kind":"ServiceAccount","name":"kubevirt-controller","namespace":"harvester-system"}]`
	out, err := dryRunInstall(t, config, elsewhere)
	for _, want := range []string{`annotations.setters: KubeVirt's controller in namespace ` +
		`"kubevirt" is missing`,
		`--set-json 'annotations.setters=[{"kind":"ServiceAccount",`, `"namespace":"kubevirt"}]'`} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%v, printed %q, want %q in it", err, out, want)
		}
	}
	for name, args := range map[string][]string{
		"the default": nil,
		"by a user name": {`--set-json=annotations.setters=[{"kind":"User","name":"` +
			virtController + `"}]`},
		"by a group": {
			`--set-json=annotations.setters=[{"kind":"Group","name":"system:serviceaccounts:kubevirt"}]`},
		"own binding":        {"--set=annotations.setters=null"},
		"without the policy": {elsewhere, "--set=annotations.policy=false"},
	} {
		if out, err := dryRunInstall(t, config, args...); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// TestMissingKubeVirtIsReported: without KubeVirt the controller waits, so the chart says so.
func TestMissingKubeVirtIsReported(t *testing.T) {
	const want = "This cluster has no KubeVirt."
	without, with := kubetest.Start(t).Config(), startKubeVirt(t).Plane.Config()
	for name, tt := range map[string]struct {
		config *rest.Config
		args   []string
		want   bool
	}{
		"without KubeVirt":      {without, nil, true},
		"without a controller":  {without, []string{"--set=controller.enabled=false"}, false},
		"in a cluster that has": {with, nil, false},
	} {
		out, err := dryRunInstall(t, tt.config, tt.args...)
		if err != nil || strings.Contains(out, want) != tt.want {
			t.Errorf("%s: %v, printed %q", name, err, out[max(0, len(out)-2000):])
		}
	}
}

// TestHelmTakesOver installs over install.yaml. Helm takes over existing objects only with its
// flag.
func TestHelmTakesOver(t *testing.T) {
	u := newInstallation(t)
	u.objects = apply(t, u.plane, render(t))
	u.remove(t) // objects applied by other tests differ from install.yaml
	apply(t, u.plane, read(t, "../../deploy/kubernetes/install.yaml"))
	to := []string{"--namespace=" + system, "--kubeconfig=" + kubeconfig(t, u.plane.Config())}
	install := append([]string{"install", "mooring", chart, "--set=images.controller.tag=v2"},
		to...)
	if out, err := helm(t, install...); err == nil ||
		!strings.Contains(out, "invalid ownership metadata") {
		t.Errorf("without the flag: %v, printed %q", err, out)
	}
	if out, err := helm(t, append(install, "--take-ownership", "--force-conflicts")...); err !=
		nil {
		t.Fatalf("%v: %s", err, out)
	}
	if image := u.controllerImage(t); !strings.HasSuffix(image, ":v2") {
		t.Errorf("the controller's image is %s", image)
	}
	if out, err := helm(t, append([]string{"uninstall", "mooring", "--no-hooks"}, to...)...); err !=
		nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func (u *installation) controllerImage(t *testing.T) string {
	t.Helper()
	return u.controller(t).Spec.Template.Spec.Containers[0].Image
}
