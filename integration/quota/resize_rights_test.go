package quota

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/integration/controllerprogram"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// TestResizeRights patches pods as the controller's account. Only sizes of launchers pass.
func TestResizeRights(t *testing.T) {
	c := kubevirttest.Start(t)
	install(t, c, controllerprogram.Name)
	controller := asController(t, c)
	ns := c.Namespace(t, nil)
	vm := newVM(ns, "db", virtv1.RunStrategyAlways)
	if err := c.Client.Create(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	launcher := onlyLauncher(t, c, vm)
	testInstanceRights(t, controller, awaitInstance(t, c, vm))
	foreign := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "foreign",
		Labels: map[string]string{virtv1.AppLabel: "virt-launcher"}}}
	foreign.Spec.Containers = []corev1.Container{{Name: "compute", Image: "registry.test/a",
		Resources: corev1.ResourceRequirements{Requests: list("memory", "1Gi")}}}
	if err := c.Client.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	resources := `{"spec": {"containers": [{"name": %q, "resources": {"requests": ` +
		`{"memory": "3Gi"}}}]}}`
	annotation := `{"metadata": {"annotations": {%q: "4"}}}`
	for name, tt := range map[string]struct {
		pod         *corev1.Pod
		subresource string
		patch       string
		want        string // part of the refusal; "": it passes
	}{
		"a size":        {&launcher, "", fmt.Sprintf(annotation, api.VCPUsKey), ""},
		"a scoped size": {&launcher, "", fmt.Sprintf(annotation, api.VCPUsKey+"/pod"), ""},
		"resources":     {&launcher, "resize", fmt.Sprintf(resources, "compute"), ""},
		"another annotation": {&launcher, "", fmt.Sprintf(annotation, "a.mooring.dev"),
			"not a.mooring.dev"},
		"a foreign annotation": {&launcher, "", fmt.Sprintf(annotation, "kubevirt.io/domain"),
			"not kubevirt.io/domain"},
		"a label": {&launcher, "", `{"metadata": {"labels": {"a": "b"}}}`, "no labels"},
		"an image": {&launcher, "", `{"spec": {"containers": [{"name": "compute", "image": ` +
			`"registry.test/b"}]}}`, `its subresource "resize"`},
		"a finalizer": {&launcher, "", `{"metadata": {"finalizers": ["a.test/b"]}}`, "finalizers"},
		"a size of another pod": {foreign, "", fmt.Sprintf(annotation, api.VCPUsKey),
			"only launcher pods"},
		"resources of another pod": {foreign, "resize", fmt.Sprintf(resources, "compute"),
			"only launcher pods"},
	} {
		t.Run(name, func(t *testing.T) {
			// The API server learns policies after their creation.
			eventually(t, "the answer", func() error {
				return checkPatch(t, controller, tt.pod, tt.subresource, tt.patch, tt.want)
			})
		})
	}
}

// testInstanceRights patches the VM's instance as the controller's account. Only its label passes.
func testInstanceRights(
	t *testing.T, by client.Client, vmi *virtv1.VirtualMachineInstance,
) {
	t.Helper()
	const refusal = "changes only its own label"
	for name, tt := range map[string]struct{ patch, want string }{
		"its label":     {`{"metadata": {"labels": {"` + api.ResizedLabel + `": "true"}}}`, ""},
		"another label": {`{"metadata": {"labels": {"a": "b"}}}`, refusal},
		"an annotation": {`{"metadata": {"annotations": {"a": "b"}}}`, refusal},
		"a finalizer":   {`{"metadata": {"finalizers": ["a.test/b"]}}`, refusal},
	} {
		eventually(t, name, func() error {
			err := by.Patch(t.Context(), vmi.DeepCopy(), merge(tt.patch), client.DryRunAll)
			return checkRefused(err, tt.want)
		})
	}
}

// checkPatch patches a pod in a dry run, and compares the refusal.
func checkPatch(
	t *testing.T, by client.Client, pod *corev1.Pod, subresource, patch, want string,
) error {
	t.Helper()
	raw := client.RawPatch(types.StrategicMergePatchType, []byte(patch))
	var err error
	if subresource == "" {
		err = by.Patch(t.Context(), pod.DeepCopy(), raw, client.DryRunAll)
	} else {
		err = by.SubResource(subresource).Patch(t.Context(), pod.DeepCopy(), raw,
			&client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{
				DryRun: []string{metav1.DryRunAll}}})
	}
	return checkRefused(err, want)
}

// checkRefused compares the answer to a patch with a part of the refusal; "": it passes.
func checkRefused(err error, want string) error {
	switch {
	case want == "":
		return err
	case err == nil:
		return errors.New("the API server accepts it")
	case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want):
		return fmt.Errorf("%w: want %q", err, want)
	}
	return nil
}
