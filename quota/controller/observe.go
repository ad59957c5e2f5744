package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/quota"
)

// ReasonWouldScale is the reason of an Event on a quota that mode enforce would change.
const ReasonWouldScale = "WouldScaleQuota"

// withheld are the reported changes of quotas that mode observe leaves out, by quota.
type withheld map[string]string

// reportWithheld reports new and changed withheld writes, and those that mode enforce would undo.
func (r *Reconciler) reportWithheld(
	ns *namespace, s quota.Snapshot, writes []quota.WriteQuota,
) {
	now := withheld{}
	for _, w := range writes {
		if text := changedLimits(s, w); text != "" {
			now[w.Name] = "would set spec.hard: " + text
		}
	}
	for name, text := range now {
		if ns.withheld[name] != text {
			r.reportWouldScale(ns.name, name, text)
		}
	}
	for name := range ns.withheld {
		exists := slices.ContainsFunc(s.Quotas, func(q *corev1.ResourceQuota) bool {
			return q.Name == name
		})
		if now[name] == "" && exists {
			r.reportWouldScale(ns.name, name, "would set spec.hard back")
		}
	}
	ns.withheld = now
}

func (r *Reconciler) reportWouldScale(namespace, name, text string) {
	r.Metrics.countWithheld()
	r.event(reference("ResourceQuota", namespace, name), corev1.EventTypeNormal, ReasonWouldScale,
		policy.Observing+text)
}

// changedLimits lists the limits that a write changes; empty: none.
func changedLimits(s quota.Snapshot, w quota.WriteQuota) string {
	var all []string
	for _, q := range s.Quotas {
		if q.UID != w.UID {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(w.Hard)) {
			was, to := q.Spec.Hard[name], w.Hard[name]
			if was.Cmp(to) != 0 {
				all = append(all, fmt.Sprintf("%s from %s to %s", name, &was, &to))
			}
		}
	}
	return strings.Join(all, ", ")
}
