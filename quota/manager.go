package quota

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
)

// managedBase returns the limits that a quota manager such as Rancher keeps for a quota, in an
// annotation of the namespace. They replace spec.hard as the base of the quota. It returns nil if
// the options name no manager, or if the quota lacks the manager's label.
func managedBase(
	q *corev1.ResourceQuota, ns *corev1.Namespace, o Options,
) (corev1.ResourceList, error) {
	if ns == nil || o.ManagerAnnotation == NoManager || q.Labels[o.ManagerLabel] != "true" {
		return nil, nil
	}
	return parseManaged(o.ManagerAnnotation, ns.Annotations[o.ManagerAnnotation])
}

// parseManaged reads a manager's annotation: {"limit":{"limitsCpu":"1000m"}}. It ignores unknown
// resource names.
func parseManaged(key, text string) (corev1.ResourceList, error) {
	if text == "" {
		return nil, nil
	}
	invalid := func(format string, args ...any) error {
		return &api.InvalidError{Key: key, Value: text, Allowed: fmt.Sprintf(format, args...)}
	}
	var managed struct {
		Limit map[string]json.RawMessage `json:"limit"`
	}
	if err := json.Unmarshal([]byte(text), &managed); err != nil {
		return nil, invalid(`want JSON such as {"limit":{"limitsCpu":"1000m"}}`)
	}
	list := corev1.ResourceList{}
	for theirs, raw := range managed.Limit {
		name := managedName(theirs)
		var value string
		if name == "" {
			continue
		}
		if err := json.Unmarshal(raw, &value); err != nil {
			return nil, invalid("limit.%s: want a quantity in quotes", theirs)
		}
		if value == "" {
			continue
		}
		q, err := parseQuantity(value)
		if err != nil {
			return nil, invalid("limit.%s: %v", theirs, err)
		}
		list[name] = q
	}
	return list, nil
}

// managedName returns Kubernetes' name for a resource name of the manager (Rancher); empty if
// unknown.
func managedName(theirs string) corev1.ResourceName {
	switch theirs {
	case "limitsCpu":
		return corev1.ResourceLimitsCPU
	case "limitsMemory":
		return corev1.ResourceLimitsMemory
	case "requestsCpu":
		return corev1.ResourceRequestsCPU
	case "requestsMemory":
		return corev1.ResourceRequestsMemory
	case "requestsStorage":
		return corev1.ResourceRequestsStorage
	case "pods":
		return corev1.ResourcePods
	case "services":
		return corev1.ResourceServices
	case "servicesLoadBalancers":
		return corev1.ResourceServicesLoadBalancers
	case "servicesNodePorts":
		return corev1.ResourceServicesNodePorts
	case "configMaps":
		return corev1.ResourceConfigMaps
	case "secrets":
		return corev1.ResourceSecrets
	case "persistentVolumeClaims":
		return corev1.ResourcePersistentVolumeClaims
	case "replicationControllers":
		return corev1.ResourceReplicationControllers
	}
	return ""
}
