package cli

import (
	"context"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"

	"github.com/mooring-vm/mooring/agent/doctor"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/cli/coexistence"
)

// launcherPolicy is the admission policy for the labels of launchers. The chart installs it with
// the policy for annotations, and in the same mode.
const launcherPolicy = "mooring-launchers"

// examineKubeVirt examines the cluster's KubeVirt, given the nodes with an agent. A cluster without
// KubeVirt has no findings.
func (c *cluster) examineKubeVirt(ctx context.Context, agents []string) []doctor.Finding {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	f := coexistence.Facts{Agents: agents}
	var list kubevirtv1.KubeVirtList
	err := getJSON(ctx, c, &list, kubevirtv1.GroupVersion.Group, "v1", "kubevirts")
	if apierrors.IsNotFound(err) {
		return nil
	}
	f.Objects = list.Items
	f.ObjectsErr = clusterError(err, "list", "kubevirts", "read the KubeVirt object")
	if len(f.Objects) == 1 {
		c.readBeside(ctx, &f)
	}
	return coexistence.Examine(f)
}

// readBeside reads KubeVirt's pods, and Mooring's admission policies and Plugin.
func (c *cluster) readBeside(ctx context.Context, f *coexistence.Facts) {
	object := &f.Objects[0]
	pods, err := c.CoreV1().Pods(object.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: coexistence.PodSelector})
	if err != nil {
		f.PodsErr = clusterError(err, "list", "pods", "read the pods of KubeVirt")
	} else {
		f.Pods = pods.Items
	}
	f.Admission, f.AdmissionErr = c.readAdmission(ctx, object)
	f.Plugin, f.PluginErr = c.hasPlugin(ctx)
}

// hasPlugin reports whether the chart's Plugin exists. Only KubeVirt 1.9 and newer has the kind.
func (c *cluster) hasPlugin(ctx context.Context) (bool, error) {
	var plugin metav1.PartialObjectMetadata
	err := getJSON(ctx, c, &plugin, pluginv1alpha1.SchemeGroupVersion.Group,
		pluginv1alpha1.SchemeGroupVersion.Version, "plugins", coexistence.PluginName)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, clusterError(err, "get", "plugins.plugin.kubevirt.io", "read the Plugin")
}

// readAdmission reads Mooring's admission policies, and the rights of virt-controller.
func (c *cluster) readAdmission(
	ctx context.Context, object *kubevirtv1.KubeVirt,
) (coexistence.Admission, error) {
	var a coexistence.Admission
	binding, err := c.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(ctx,
		launcherPolicy, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return a, nil
	case err != nil:
		return a, clusterError(err, "get", "validatingadmissionpolicybindings",
			"read the admission policies")
	}
	a.Exists = true
	a.Denies = slices.Contains(binding.Spec.ValidationActions, admissionv1.Deny)
	for _, resource := range []string{coexistence.LauncherLabels, coexistence.PodAnnotations} {
		may, err := c.maySet(ctx, object, resource)
		if err != nil {
			return a, err
		}
		if !may {
			a.Missing = append(a.Missing, resource)
		}
	}
	return a, nil
}

// maySet reports whether virt-controller has the verb "set" for a resource of the admission
// policies in all namespaces.
func (c *cluster) maySet(
	ctx context.Context, object *kubevirtv1.KubeVirt, resource string,
) (bool, error) {
	review, err := c.AuthorizationV1().SubjectAccessReviews().Create(ctx,
		&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: coexistence.Account(object),
			Groups: []string{"system:authenticated", "system:serviceaccounts",
				"system:serviceaccounts:" + object.Namespace},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "set",
				Group: v1alpha1.Group, Resource: resource},
		}}, metav1.CreateOptions{})
	if err != nil {
		return false, clusterError(err, "create", "subjectaccessreviews",
			"read the rights of virt-controller")
	}
	return review.Status.Allowed, nil
}
