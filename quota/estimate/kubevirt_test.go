package estimate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/estimate"
	"github.com/mooring-vm/mooring/quota/virt"
)

// kubevirtCase is a VM with its settings, an item of testdata/cases.yaml, and its pods.
type kubevirtCase struct {
	Name                string
	Annotations, Labels map[string]string // of the VM, of the namespace
	Configuration       kubevirtv1.KubeVirtConfiguration
	Spec                kubevirtv1.VirtualMachineInstanceSpec
	Hard                corev1.ResourceList

	pods map[string]map[v1alpha1.PodRole]*corev1.Pod // by release
}

func (c kubevirtCase) input(t *testing.T, release string) estimate.Input {
	t.Helper()
	kubevirt := &kubevirtv1.KubeVirt{}
	kubevirt.Spec.Configuration = *c.Configuration.DeepCopy()
	kubevirt.Status.ObservedKubeVirtVersion = release
	cluster, err := virt.FromObject(kubevirt)
	if err != nil {
		t.Fatal(err)
	}
	vmi := &kubevirtv1.VirtualMachineInstance{Spec: *c.Spec.DeepCopy(),
		ObjectMeta: metav1.ObjectMeta{Name: "vm", Annotations: c.Annotations}}
	return estimate.Input{VMI: vmi, Cluster: cluster,
		Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: c.Labels}},
		Quotas:    []*corev1.ResourceQuota{{Spec: corev1.ResourceQuotaSpec{Hard: c.Hard}}}}
}

// kubevirtCases reads testdata.
func kubevirtCases(t *testing.T) []kubevirtCase {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "cases.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all []kubevirtCase
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		t.Fatal(err)
	}
	byName := map[string]*kubevirtCase{}
	for i := range all {
		all[i].pods = map[string]map[v1alpha1.PodRole]*corev1.Pod{}
		byName[all[i].Name] = &all[i]
	}
	if len(byName) != len(all) {
		t.Error("testdata/cases.yaml: two cases have the same name")
	}
	for _, row := range rows(t) {
		c := byName[row[0]]
		if c == nil {
			t.Fatalf("testdata/cases.yaml lacks %s: run go generate ./quota/estimate", row[0])
		}
		for release := range strings.SplitSeq(row[1], ",") {
			c.add(t, release, row[2:])
		}
	}
	return all
}

// rows reads testdata/launchers.tsv: case, releases, pod, container, requests, limits.
func rows(t *testing.T) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "launchers.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[2:] {
		all = append(all, strings.Split(line, "\t"))
	}
	return all
}

// add adds a container to the pods of a release: pod, container, requests, limits.
func (c *kubevirtCase) add(t *testing.T, release string, row []string) {
	t.Helper()
	pods := c.pods[release]
	if pods == nil {
		pods = map[v1alpha1.PodRole]*corev1.Pod{}
		c.pods[release] = pods
	}
	role := map[string]v1alpha1.PodRole{"launcher": v1alpha1.RoleLauncher,
		"attachment": v1alpha1.RoleAttachment}[row[0]]
	if role == "" {
		t.Fatalf("%s, %s: KubeVirt renders no pod: %s", c.Name, release, row[1])
	}
	if pods[role] == nil {
		pods[role] = &corev1.Pod{}
	}
	container := corev1.Container{Resources: corev1.ResourceRequirements{
		Requests: amounts(row[2]), Limits: amounts(row[3])}}
	setMissingRequests(container.Resources)
	spec := &pods[role].Spec
	kind, _, _ := strings.Cut(row[1], " ")
	switch kind {
	case "always":
		container.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		fallthrough
	case "init":
		spec.InitContainers = append(spec.InitContainers, container)
	default:
		spec.Containers = append(spec.Containers, container)
	}
}

// setMissingRequests sets the API server's default.
func setMissingRequests(of corev1.ResourceRequirements) {
	for name, q := range of.Limits {
		if _, has := of.Requests[name]; !has {
			of.Requests[name] = q
		}
	}
}

// amounts parses a cell.
func amounts(cell string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for pair := range strings.SplitSeq(cell, ",") {
		if name, amount, ok := strings.Cut(pair, "="); ok {
			list[corev1.ResourceName(name)] = resource.MustParse(amount)
		}
	}
	return list
}

// TestEstimateIsKubeVirts compares the estimate with the pods of KubeVirt's own code.
func TestEstimateIsKubeVirts(t *testing.T) {
	compared := map[string]int{}
	for _, c := range kubevirtCases(t) {
		for release, pods := range c.pods {
			compared[release]++
			got, err := estimate.Estimate(c.input(t, release))
			if err != nil {
				t.Errorf("%s, %s: %v", release, c.Name, err)
				continue
			}
			want := quota.Charge(pods[v1alpha1.RoleLauncher])
			if diff := cmp.Diff(want, got.Pod.Charge, equal()); diff != "" {
				t.Errorf("%s, %s: (-KubeVirt +estimate)\n%s", release, c.Name, diff)
			}
		}
	}
	if len(compared) != 4 { // KubeVirt 1.6 to 1.9
		t.Errorf("compared %v, want four releases", compared)
	}
	for release, n := range compared {
		if n < 100 {
			t.Errorf("%s: compared only %d cases", release, n)
		}
	}
}

// TestAttachmentsAreOfOneSize: a reservation takes the charge of the target's attachment pod from
// the source's, which may be of another version. So the size must not depend on the version.
func TestAttachmentsAreOfOneSize(t *testing.T) {
	compared := 0
	for _, c := range kubevirtCases(t) {
		first := corev1.ResourceList(nil)
		for release, pods := range c.pods {
			attachment := pods[v1alpha1.RoleAttachment]
			if attachment == nil {
				continue
			}
			compared++
			charge := quota.Charge(attachment)
			if first == nil {
				first = charge
			}
			if diff := cmp.Diff(first, charge, equal()); diff != "" {
				t.Errorf("%s, %s: (-another release +this one)\n%s", release, c.Name, diff)
			}
		}
	}
	if compared < 12 {
		t.Errorf("compared %d attachment pods", compared)
	}
}
