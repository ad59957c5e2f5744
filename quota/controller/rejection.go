package controller

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mooring-vm/mooring/quota"
)

var (
	// byQuota is what the API server says: the quota, and what the pod wants of it.
	byQuota = regexp.MustCompile(quota.Exceeded + `: ([^,\s]+), requested: (\S+), used: `)
	// byGuard is what the webhook says of each quota, and byGuardOf of each resource of it.
	byGuard   = regexp.MustCompile(`ResourceQuota (\S+): ((?:[^;:\s]+: requested [^;,\s]+, free [^;\s]+(?:; )?)+)`)
	byGuardOf = regexp.MustCompile(`([^;:\s]+): requested ([^;,\s]+), free`)
)

// rejection is what a launcher pod wants of a quota that has rejected it.
type rejection struct {
	quota string
	wants corev1.ResourceList
}

// rejections reads why a launcher pod was rejected. What is said in another way is none.
func rejections(message string) []rejection {
	var all []rejection
	for _, match := range byQuota.FindAllStringSubmatch(message, -1) {
		r := rejection{match[1], corev1.ResourceList{}}
		for pair := range strings.SplitSeq(match[2], ",") {
			name, amount, _ := strings.Cut(pair, "=")
			r.enter(name, amount)
		}
		all = append(all, r)
	}
	for _, match := range byGuard.FindAllStringSubmatch(message, -1) {
		r := rejection{match[1], corev1.ResourceList{}}
		for _, of := range byGuardOf.FindAllStringSubmatch(match[2], -1) {
			r.enter(of[1], of[2])
		}
		all = append(all, r)
	}
	return all
}

func (r rejection) enter(name, amount string) {
	if q, err := resource.ParseQuantity(amount); err == nil {
		r.wants[corev1.ResourceName(name)] = q
	}
}

// holds says whether a quota still has too little free for what it has rejected, and keeps
// something for migrations.
func (r rejection) holds(accounts []quota.Account) bool {
	return slices.ContainsFunc(accounts, func(a quota.Account) bool {
		if a.Quota.Name != r.quota || !keeps(a) {
			return false
		}
		for name, free := range a.Free() {
			if wants := r.wants[name]; wants.Cmp(free) > 0 {
				return true
			}
		}
		return false
	})
}

// keeps says whether a quota keeps something for migrations.
func keeps(a quota.Account) bool { return len(a.Holders) > 0 || len(a.Shares.Maintenance) > 0 }
