package actor

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NodeNames are the names of the Nodes in a cluster without real ones.
func NodeNames() []string { return []string{"node-1", "node-2"} }

// machineType is the meaning of "q35", requested by VMIs, for the Nodes' QEMU.
const machineType = "pc-q35-rhel9.6.0"

// MakeNodes makes missing Nodes. Changes made by a test stay.
func MakeNodes(ctx context.Context, api client.Client, names ...string) error {
	for _, name := range names {
		n := node(name)
		status := n.Status
		err := api.Create(ctx, n)
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("making node %q: %w", name, err)
		}
		if err := reportReady(ctx, api, n, status); err != nil {
			return fmt.Errorf("making node %q: %w", name, err)
		}
	}
	return nil
}

// reportReady removes the taint of a new Node and reports it ready.
func reportReady(
	ctx context.Context, api client.Client, n *corev1.Node, status corev1.NodeStatus,
) error {
	n.Spec.Taints = nil
	if err := api.Update(ctx, n); err != nil {
		return err
	}
	n.Status = status
	return api.Status().Update(ctx, n)
}

// node returns a Node as set up by kubelet and by virt-handler's labeller and heartbeat. The
// heartbeat lies far in the future, or virt-controller would fail the VMIs.
func node(name string) *corev1.Node {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("1000"),
		corev1.ResourceMemory:           resource.MustParse("10Ti"),
		corev1.ResourcePods:             resource.MustParse("10k"),
		corev1.ResourceEphemeralStorage: resource.MustParse("10Ti"),
		"devices.kubevirt.io/kvm":       resource.MustParse("10k"),
		"devices.kubevirt.io/tun":       resource.MustParse("10k"),
		"devices.kubevirt.io/vhost-net": resource.MustParse("10k"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Annotations: map[string]string{virtv1.VirtHandlerHeartbeat: time.Now().Add(
				24 * time.Hour).UTC().Format(time.RFC3339)},
			Labels: map[string]string{
				corev1.LabelHostname:                           name,
				corev1.LabelArchStable:                         "amd64",
				corev1.LabelOSStable:                           "linux",
				virtv1.NodeSchedulable:                         "true",
				virtv1.SupportedMachineTypeLabel + "q35":       "true",
				virtv1.SupportedMachineTypeLabel + machineType: "true",
				virtv1.CPUModelLabel + "EPYC":                  "true",
				virtv1.CPUFeatureLabel + "svm":                 "true",
				virtv1.CPUModelVendorLabel + "AMD":             "true",
				virtv1.HostModelCPULabel + "EPYC":              "true",
				virtv1.HostModelRequiredFeaturesLabel + "svm":  "true",
				virtv1.SupportedHostModelMigrationCPU + "EPYC": "true",
			},
		},
		Status: corev1.NodeStatus{
			Capacity: resources, Allocatable: resources,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady,
				Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}},
		},
	}
}
