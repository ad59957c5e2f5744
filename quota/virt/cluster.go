// Package virt reads what the KubeVirt of a cluster is set to, as far as the size of
// launcher pods depends on it.
package virt

import (
	"context"
	"errors"
	"fmt"
	"strings"

	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/memlock/kubevirt"
)

// ErrNone is that a cluster has no KubeVirt object.
var ErrNone = errors.New("the cluster has no object of kind KubeVirt")

// Cluster is the KubeVirt of a cluster.
type Cluster struct {
	Namespace string // that KubeVirt runs in
	Version   kubevirt.Version
	Ratio     kubevirt.Ratio // additionalGuestMemoryOverheadRatio

	// Configuration is spec.configuration. It is never nil.
	Configuration *kubevirtv1.KubeVirtConfiguration
}

// serviceAccount is that of virt-controller, which makes launcher pods.
const serviceAccount = "kubevirt-controller"

// Controller is the user name of virt-controller.
func (c Cluster) Controller() string {
	return "system:serviceaccount:" + c.Namespace + ":" + serviceAccount
}

// Read reads the cluster's KubeVirt object: there is one, in whichever namespace. The error
// is [ErrNone], that there are several, that the object cannot be read, or what of it says
// nothing that is known, by its field.
func Read(ctx context.Context, from client.Reader) (Cluster, error) {
	list := &kubevirtv1.KubeVirtList{}
	if err := from.List(ctx, list); err != nil {
		return Cluster{}, fmt.Errorf("listing KubeVirt objects: %w", err)
	}
	switch len(list.Items) {
	case 0:
		return Cluster{}, ErrNone
	case 1:
		return Of(&list.Items[0])
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Namespace+"/"+item.Name)
	}
	return Cluster{}, fmt.Errorf("the cluster has %d objects of kind KubeVirt: %s: want one", len(names), strings.Join(names, ", "))
}

// Of reads a KubeVirt object. The version is the one that runs, or else the one that is
// being installed.
func Of(object *kubevirtv1.KubeVirt) (Cluster, error) {
	c := Cluster{Namespace: object.Namespace, Configuration: object.Spec.Configuration.DeepCopy()}
	field, version := "status.observedKubeVirtVersion", object.Status.ObservedKubeVirtVersion
	if version == "" {
		field, version = "status.targetKubeVirtVersion", object.Status.TargetKubeVirtVersion
	}
	var err error
	if c.Version, err = kubevirt.ParseVersion(version); err != nil {
		return Cluster{}, fmt.Errorf("KubeVirt %s/%s, %s: %w", object.Namespace, object.Name, field, err)
	}
	if ratio := c.Configuration.AdditionalGuestMemoryOverheadRatio; ratio != nil && *ratio != "" {
		if c.Ratio, err = kubevirt.ParseRatio(*ratio); err != nil {
			return Cluster{}, fmt.Errorf("KubeVirt %s/%s, spec.configuration.additionalGuestMemoryOverheadRatio: %w",
				object.Namespace, object.Name, err)
		}
	}
	return c, nil
}
