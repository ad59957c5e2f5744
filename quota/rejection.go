package quota

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// Exceeded is what the API server says of a pod that a ResourceQuota rejects, and what
// KubeVirt looks for in an error to know that a quota is the reason.
const Exceeded = "exceeded quota"

// RefuseLauncher says why a launcher is refused that [Lacking] says too little is free for.
// KubeVirt takes it for what a quota says, and [Rejections] reads it.
func RefuseLauncher(vm, lacking string) string {
	return fmt.Sprintf("%s: the launcher of VM %s does not fit: %s", Exceeded, vm, lacking)
}

// Lacking says what there is too little of for a pod that is no migration's, in each quota;
// empty: nothing.
func Lacking(accounts []Account, pod v1alpha1.ReservedPod) string {
	return lacking(accounts, func(a Account) error { return a.Check(pod) })
}

// LackingAgain is [Lacking] by [Account.CheckAgain].
func LackingAgain(accounts []Account, pod v1alpha1.ReservedPod, has corev1.ResourceList) string {
	return lacking(accounts, func(a Account) error { return a.CheckAgain(pod, has) })
}

func lacking(accounts []Account, check func(Account) error) string {
	var why []string
	for _, a := range accounts {
		if err := check(a); err != nil {
			why = append(why, err.Error())
		}
	}
	return strings.Join(why, "; ")
}

// lacks says that these resources are too little for what is wanted.
func (a Account) lacks(wants, free corev1.ResourceList, of []corev1.ResourceName) error {
	lacking := make([]string, 0, len(of))
	for _, name := range of {
		lacking = append(lacking, fmt.Sprintf("%s: requested %s, free %s", name, quantity(wants[name]), quantity(free[name])))
	}
	text := fmt.Sprintf("ResourceQuota %s: %s", a.Quota.Name, strings.Join(lacking, "; "))
	if len(a.Holders) > 0 {
		text += fmt.Sprintf(" (reserved for %d migrations: %s)", len(a.Holders), show(a.Reserved))
	}
	return errors.New(text)
}

func quantity(q resource.Quantity) string { return q.String() }

var (
	// byQuota is what the API server says: the quota, and what the pod wants of it.
	byQuota = regexp.MustCompile(Exceeded + `: ([^,\s]+), requested: (\S+), used: `)
	// byAccount is what Account.lacks says of a quota, and byAccountOf of a resource of it.
	byAccount   = regexp.MustCompile(`ResourceQuota (\S+): ((?:[^;:\s]+: requested [^;,\s]+, free [^;\s]+(?:; )?)+)`)
	byAccountOf = regexp.MustCompile(`([^;:\s]+): requested ([^;,\s]+), free`)
)

// Rejection is what a pod wants of a quota that has too little of it.
type Rejection struct {
	Quota string
	Wants corev1.ResourceList
}

// Rejections reads why a pod was rejected: what the API server says, and what [Lacking] does.
// What is said in another way is none.
func Rejections(message string) []Rejection {
	var all []Rejection
	for _, match := range byQuota.FindAllStringSubmatch(message, -1) {
		r := Rejection{match[1], corev1.ResourceList{}}
		for pair := range strings.SplitSeq(match[2], ",") {
			name, amount, _ := strings.Cut(pair, "=")
			r.enter(name, amount)
		}
		all = append(all, r)
	}
	for _, match := range byAccount.FindAllStringSubmatch(message, -1) {
		r := Rejection{match[1], corev1.ResourceList{}}
		for _, of := range byAccountOf.FindAllStringSubmatch(match[2], -1) {
			r.enter(of[1], of[2])
		}
		all = append(all, r)
	}
	return all
}

func (r Rejection) enter(name, amount string) {
	if q, err := resource.ParseQuantity(amount); err == nil {
		r.Wants[corev1.ResourceName(name)] = q
	}
}

// Holds says whether a quota still has too little free for what it has rejected, and keeps
// something for migrations.
func (r Rejection) Holds(accounts []Account) bool {
	return slices.ContainsFunc(accounts, func(a Account) bool {
		if a.Quota.Name != r.Quota || !a.Keeps() {
			return false
		}
		for name, free := range a.Free() {
			if wants := r.Wants[name]; wants.Cmp(free) > 0 {
				return true
			}
		}
		return false
	})
}
