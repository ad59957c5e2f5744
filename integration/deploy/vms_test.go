package deploy

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// TestVMAnnotationsAreRefused: a VM's annotations for its launcher require the same right as the
// launcher's own.
func TestVMAnnotationsAreRefused(t *testing.T) {
	p, _ := startEnforcedVMs(t)
	for kind, made := range map[string]func(key string) client.Object{
		"VirtualMachine": func(key string) client.Object {
			return p.vm("vm", kubevirtv1.RunStrategyHalted, map[string]string{key: "c"})
		},
		"VirtualMachineInstance": func(key string) client.Object {
			return p.vmi("vm", map[string]string{key: "c"})
		},
	} {
		err := p.plain.Create(t.Context(), made(launcherKey), client.DryRunAll)
		wantRefused(t, kind, err, "plain may not change "+launcherKey,
			`verb "set" for podannotations.mooring.dev in namespace `+p.namespace)
		for who, c := range map[string]client.Client{"annotator": p.annotator,
			"KubeVirt's controller": p.controllerOf(t)} {
			if err := c.Create(t.Context(), made(launcherKey), client.DryRunAll); err != nil {
				t.Errorf("%s, by %s: %v", kind, who, err)
			}
		}
		if err := p.plain.Create(t.Context(), made("example.com/a"), client.DryRunAll); err != nil {
			t.Errorf("%s, another annotation: %v", kind, err)
		}
	}
}

// sources are other objects from which KubeVirt's controller derives annotations of launchers. KEY
// is replaced by an annotation.
const sources = `
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstanceReplicaSet
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}, annotations: {KEY: c}}, spec: {domain: {devices: {}}}}
---
apiVersion: pool.kubevirt.io/v1beta1
kind: VirtualMachinePool
spec:
  replicas: 0
  selector: {matchLabels: {a: b}}
  virtualMachineTemplate:
    metadata: {labels: {a: b}}
    spec: {runStrategy: Halted, template: {metadata: {labels: {a: b}, annotations: {KEY: c}}, spec: {domain: {devices: {}}}}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineInstancetype
spec: {annotations: {KEY: c}, cpu: {guest: 1}, memory: {guest: 64Mi}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
spec: {annotations: {KEY: c}, cpu: {guest: 1}, memory: {guest: 64Mi}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachinePreference
spec: {annotations: {KEY: c}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterPreference
spec: {annotations: {KEY: c}}
---
apiVersion: snapshot.kubevirt.io/v1beta1
kind: VirtualMachineSnapshotContent
spec:
  virtualMachineSnapshotName: s
  source:
    virtualMachine: {spec: {template: {metadata: {annotations: {KEY: c}}, spec: {domain: {devices: {}}}}}}
---
apiVersion: snapshot.kubevirt.io/v1beta1
kind: VirtualMachineRestore
spec:
  target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: vm}
  virtualMachineSnapshotName: s
  patches: ['{"op": "add", "path": "/spec/template/metadata/annotations/KEY", "value": "c"}']
---
apiVersion: clone.kubevirt.io/v1beta1
kind: VirtualMachineClone
spec:
  source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: vm}
  patches: ['{"op": "add", "path": "/spec/template/metadata/annotations/KEY", "value": "c"}']
`

// TestNoWayAround: KubeVirt's controller may set all annotations, so users must not reach them
// through it. KubeVirt's own validation does not run here.
func TestNoWayAround(t *testing.T) {
	p, _ := startEnforcedVMs(t)
	for document := range strings.SplitSeq(sources, "\n---\n") {
		made := func(key string) *unstructured.Unstructured { return p.source(t, document, key) }
		kind := made("a").GetKind()
		wantRefused(t, kind, p.plain.Create(t.Context(), made(launcherKey), client.DryRunAll),
			"plain may not change", "podannotations.mooring.dev")
		err := p.annotator.Create(t.Context(), made(launcherKey), client.DryRunAll)
		if refused, cluster := checkRefusedBy("mooring-vm-annotations", err) == nil,
			strings.Contains(kind, "Cluster"); refused != cluster {
			t.Errorf("%s, with the right in one namespace: %v", kind, err)
		}
		if err := p.plain.Create(t.Context(), made("a"), client.DryRunAll); checkRefusedBy(
			"mooring-vm-annotations", err) == nil {
			t.Errorf("%s, another annotation: %v", kind, err)
		}
	}
}

func (p *policyTest) source(t *testing.T, document, key string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(document, "KEY", key)), &o.Object); err !=
		nil {
		t.Fatal(err)
	}
	o.SetName("source")
	if !strings.Contains(o.GetKind(), "Cluster") {
		o.SetNamespace(p.namespace)
	}
	return o
}

// Patches of a restore or a clone may encode an annotation differently, or copy it from another
// part of the VM.
func TestUnusualPatches(t *testing.T) {
	p, _ := startEnforcedVMs(t)
	clone := func(patch string) *unstructured.Unstructured {
		o := p.source(t, sources[strings.LastIndex(sources, "---\n")+4:], "a")
		if err := unstructured.SetNestedStringSlice(o.Object, []string{patch}, "spec",
			"patches"); err != nil {
			t.Fatal(err)
		}
		return o
	}
	for patch, refused := range map[string]bool{
		`{"op": "add", "path": "/spec/template/metadata/annotations", "value": {"launcher.mooring\u002edev": "c"}}`: true,
		`{"op": "copy", "from": "/metadata/annotations", "path": "/spec/template/metadata/annotations"}`:            true,
		`{"op": "move", "from": "/metadata", "path": "/spec/template/metadata"}`:                                    true,
		`{"op": "replace", "path": "/spec/runStrategy", "value": "Halted"}`:                                         false,
	} {
		err := p.plain.Create(t.Context(), clone(patch), client.DryRunAll)
		if (checkRefusedBy("mooring-vm-annotations", err) == nil) != refused {
			t.Errorf("%s: %v", patch, err)
		}
	}
}

// Changes of other parts of an annotated VM pass.
func TestVMAnnotationsAreKept(t *testing.T) {
	p, _ := startEnforcedVMs(t)
	vm := p.vm("annotated", kubevirtv1.RunStrategyHalted,
		map[string]string{launcherKey: "c", "example.com/a": "1"})
	if err := p.annotator.Create(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	patch := func(text string) error {
		return p.plain.Patch(t.Context(), vm.DeepCopy(),
			client.RawPatch(client.Merge.Type(), []byte(text)), client.DryRunAll)
	}
	template := func(annotations string) string {
		return `{"spec": {"template": {"metadata": {"annotations": ` + annotations + `}}}}`
	}
	for _, text := range []string{
		template(`{"example.com/a": "2"}`), `{"spec": {"runStrategy": "Manual"}}`,
		`{"metadata": {"labels": {"a": "b"}}}`,
		`{"spec": {"template": {"spec": {"domain": {"cpu": {"cores": 2}}}}}}`,
	} {
		if err := patch(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	status := client.RawPatch(client.Merge.Type(),
		[]byte(`{"status": {"printableStatus": "Paused"}}`))
	if err := p.plain.Status().Patch(t.Context(), vm.DeepCopy(), status, client.DryRunAll); err !=
		nil {
		t.Errorf("the status: %v", err)
	}
	for _, text := range []string{
		template(`{"launcher.mooring.dev": "d"}`), template(`{"launcher.mooring.dev": null}`),
		template(`null`),
		template(`{"value.memlock.mooring.dev": "1Gi"}`),
		`{"spec": {"template": {"metadata": null}}}`,
	} {
		wantRefused(t, text, patch(text), "plain may not change", ".mooring.dev")
	}
}

// The policy accepts a template without metadata or annotations.
func TestTemplatesWithoutMetadata(t *testing.T) {
	p, _ := startEnforcedVMs(t)
	for _, metadata := range []string{"metadata: null,", "metadata: {annotations: null},",
		"metadata: {},", ""} {
		o := p.source(t, strings.Replace(pool, "METADATA", metadata, 1), "")
		err := p.plain.Create(t.Context(), o, client.DryRunAll)
		if err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			t.Errorf("%q: %v", metadata, err)
		}
	}
	if err := p.plain.Create(t.Context(), p.vm("vm", kubevirtv1.RunStrategyHalted, nil),
		client.DryRunAll); err != nil {
		t.Error(err)
	}
}

const pool = `
apiVersion: pool.kubevirt.io/v1beta1
kind: VirtualMachinePool
spec:
  replicas: 0
  selector: {matchLabels: {a: b}}
  virtualMachineTemplate:
    metadata: {labels: {a: b}}
    spec: {runStrategy: Halted, template: {METADATA spec: {domain: {devices: {}}}}}
`

// TestKubeVirtWorksInModeEnforce has KubeVirt copy a VM's annotations to its launcher pods. A user
// without the annotation right starts and stops the VM.
func TestKubeVirtWorksInModeEnforce(t *testing.T) {
	p, c := startEnforcedVMs(t)
	vm := p.vm("vm", kubevirtv1.RunStrategyHalted, map[string]string{launcherKey: "compute"})
	if err := p.annotator.Create(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	run := func(strategy kubevirtv1.VirtualMachineRunStrategy) {
		t.Helper()
		text := fmt.Appendf(nil, `{"spec": {"runStrategy": %q}}`, strategy)
		if err := p.plain.Patch(t.Context(), vm, client.RawPatch(client.Merge.Type(), text)); err !=
			nil {
			t.Fatal(err)
		}
	}
	run(kubevirtv1.RunStrategyAlways)
	vmi := &kubevirtv1.VirtualMachineInstance{}
	eventually(t, "the VM's instance", func() error {
		return p.plain.Get(t.Context(), client.ObjectKeyFromObject(vm), vmi)
	})
	c.AwaitRunning(t, vmi)
	c.Migrate(t, vmi).Await(t, kubevirtv1.MigrationSucceeded)
	pods := c.Launchers(t, vmi)
	if len(pods) != 2 {
		t.Errorf("%d launcher pods, want the migration's source and target", len(pods))
	}
	for _, pod := range pods {
		if pod.Annotations[launcherKey] != "compute" {
			t.Errorf("launcher %s has annotations %v", pod.Name, pod.Annotations)
		}
	}
	run(kubevirtv1.RunStrategyHalted)
	p.awaitNone(t, client.ObjectKeyFromObject(vm), vmi)
}
