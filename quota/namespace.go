package quota

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// ReservedLabel of a namespace, with the value "true", says that its quotas have room above their
// base for migrations. The webhook for pods works in such namespaces. The label stays until
// status.hard has fallen, too.
const ReservedLabel = "reserved.quota" + api.Suffix

// labelNamespace plans the label before quotas are raised, or its removal after they are lowered.
func (p *planner) labelNamespace() (before, after []Action) {
	if p.Namespace == nil || p.terminating() || p.o.Observe {
		return nil, nil
	}
	labelled := p.Namespace.Labels[ReservedLabel] == "true"
	reserved := p.roomAboveBase()
	switch {
	case reserved && !labelled:
		return []Action{LabelNamespace{Reserved: true}}, nil
	case !reserved && labelled && !p.Live:
		p.needsLive = true
	case !reserved && labelled:
		return nil, []Action{LabelNamespace{Reserved: false}}
	}
	return nil, nil
}

// roomAboveBase reports whether some quota has room above its base, or gets it by this plan. The
// base of a raised quota with a fault is unknown.
func (p *planner) roomAboveBase() bool {
	known := map[string]bool{}
	for _, a := range p.accounts {
		known[a.Quota.Name] = true
		if a.reservesPods() || a.raisedInForce() {
			return true
		}
	}
	return slices.ContainsFunc(p.Quotas, func(q *corev1.ResourceQuota) bool {
		return raised(q) && !optedOut(q, p.o) && !known[q.Name]
	})
}

// annotate plans the namespace annotations about the shares. For each resource they show the
// smallest amount among the quotas for launchers, as quantity strings.
func (p *planner) annotate() []Action {
	if p.Namespace == nil || p.terminating() || p.o.Observe {
		return nil
	}
	var vm, maintenance corev1.ResourceList
	for _, a := range p.accounts {
		if under, err := FallsUnder(v1alpha1.ReservedPod{Role: v1alpha1.RoleLauncher},
			a.Quota); err != nil || !under {
			continue
		}
		vm, maintenance = least(vm, a.Shares.VM), least(maintenance, a.Shares.Maintenance)
	}
	want := Annotations{p.o.Prefix + VMAvailableName: available(vm),
		p.o.Prefix + MaintenanceAvailableName: available(maintenance)}
	for key, value := range want {
		if p.Namespace.Annotations[key] == value {
			delete(want, key)
		}
	}
	if len(want) == 0 {
		return nil
	}
	return []Action{AnnotateNamespace{want}}
}

func least(a, b corev1.ResourceList) corev1.ResourceList {
	out := Max(nil, a)
	for name, q := range b {
		if now, ok := out[name]; !ok || q.Cmp(now) < 0 {
			out[name] = q.DeepCopy()
		}
	}
	return out
}

// available returns {"limit":{"limitsCpu":"5"}}, or "" for an empty list.
func available(list corev1.ResourceList) string {
	limit := map[string]string{}
	if q, ok := list[corev1.ResourceLimitsCPU]; ok {
		limit["limitsCpu"] = q.String()
	}
	if q, ok := list[corev1.ResourceLimitsMemory]; ok {
		limit["limitsMemory"] = q.String()
	}
	if len(limit) == 0 {
		return ""
	}
	text, _ := json.Marshal(map[string]any{"limit": limit}) // strings alone: cannot fail
	return string(text)
}
