// Package virt reads the settings of the cluster's KubeVirt that determine the size of launcher
// pods.
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

// ErrNoKubeVirt reports a cluster without a KubeVirt object.
var ErrNoKubeVirt = errors.New("the cluster has no object of kind KubeVirt")

// Cluster is the KubeVirt of a cluster.
type Cluster struct {
	Namespace string // of the KubeVirt object
	Version   kubevirt.Version
	Ratio     kubevirt.Ratio // additionalGuestMemoryOverheadRatio

	// Configuration is spec.configuration. It is never nil.
	Configuration *kubevirtv1.KubeVirtConfiguration
}

// serviceAccount is the service account of virt-controller, which creates launcher pods.
const serviceAccount = "kubevirt-controller"

// Controller returns the user name of virt-controller.
func (c Cluster) Controller() string {
	return "system:serviceaccount:" + c.Namespace + ":" + serviceAccount
}

// Read reads the cluster's only KubeVirt object, in any namespace. It fails with [ErrNoKubeVirt]
// for none, and with an error that names the field for several objects or an unknown value.
func Read(ctx context.Context, from client.Reader) (Cluster, error) {
	list := &kubevirtv1.KubeVirtList{}
	if err := from.List(ctx, list); err != nil {
		return Cluster{}, fmt.Errorf("listing KubeVirt objects: %w", err)
	}
	switch len(list.Items) {
	case 0:
		return Cluster{}, ErrNoKubeVirt
	case 1:
		return FromObject(&list.Items[0])
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Namespace+"/"+item.Name)
	}
	return Cluster{}, fmt.Errorf("the cluster has %d objects of kind KubeVirt: %s: want one",
		len(names), strings.Join(names, ", "))
}

// FromObject reads a KubeVirt object. It uses the observed version, or else the target version.
func FromObject(object *kubevirtv1.KubeVirt) (Cluster, error) {
	c := Cluster{Namespace: object.Namespace, Configuration: object.Spec.Configuration.DeepCopy()}
	field, version := "status.observedKubeVirtVersion", object.Status.ObservedKubeVirtVersion
	if version == "" {
		field, version = "status.targetKubeVirtVersion", object.Status.TargetKubeVirtVersion
	}
	var err error
	if c.Version, err = kubevirt.ParseVersion(version); err != nil {
		return Cluster{}, fmt.Errorf("KubeVirt %s/%s, %s: %w", object.Namespace,
			object.Name, field, err)
	}
	if ratio := c.Configuration.AdditionalGuestMemoryOverheadRatio; ratio != nil && *ratio != "" {
		if c.Ratio, err = kubevirt.ParseRatio(*ratio); err != nil {
			return Cluster{},
				fmt.Errorf("KubeVirt %s/%s, "+
					"spec.configuration.additionalGuestMemoryOverheadRatio: %w",
					object.Namespace, object.Name, err)
		}
	}
	return c, nil
}
