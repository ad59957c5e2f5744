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

// Exceeded is the API server's phrase for a pod that a ResourceQuota rejects. KubeVirt recognises a
// rejection by this phrase.
const Exceeded = "exceeded quota"

// RefuseLauncher returns the message for a refused launcher with a shortage from [Lacking].
// KubeVirt treats it as a quota rejection, and [Rejections] can parse it.
func RefuseLauncher(vm, lacking string) string {
	return fmt.Sprintf("%s: the launcher of VM %s does not fit: %s", Exceeded, vm, lacking)
}

// Lacking describes the shortage in each quota for a pod that is no migration target; empty without
// a shortage.
func Lacking(accounts []Account, pod v1alpha1.ReservedPod) string {
	return lacking(accounts, func(a Account) error { return a.Check(pod) })
}

// LackingForReplacement is [Lacking] with [Account.CheckReplacement].
func LackingForReplacement(
	accounts []Account, pod v1alpha1.ReservedPod, has corev1.ResourceList,
) string {
	return lacking(accounts, func(a Account) error { return a.CheckReplacement(pod, has) })
}

// UnknownRoom returns the fault of a raised quota that charges a pod, or nil. The base of such a
// quota is unknown, so the pod could take room above it.
func UnknownRoom(
	quotas []*corev1.ResourceQuota, faults []Fault, pod v1alpha1.ReservedPod, o Options,
) error {
	for _, q := range quotas {
		under, err := FallsUnder(pod, q)
		at := slices.IndexFunc(faults, func(f Fault) bool {
			return f.Kind == "ResourceQuota" && f.Name == q.Name
		})
		if at >= 0 && (under || err != nil) && raised(q) && !optedOut(q, o.WithDefaults()) {
			return faults[at].Err
		}
	}
	return nil
}

// LackingForPod is [Lacking] for a pod of no VM. The maintenance share does not limit it.
func LackingForPod(accounts []Account, pod v1alpha1.ReservedPod) string {
	return lacking(accounts, func(a Account) error {
		a.Shares = Shares{}
		return a.Check(pod)
	})
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

// shortageError describes a shortage of these resources.
func (a Account) shortageError(wants, free corev1.ResourceList, of []corev1.ResourceName) error {
	lacking := make([]string, 0, len(of))
	for _, name := range of {
		lacking = append(lacking, fmt.Sprintf("%s: requested %s, free %s", name,
			AtLeast(name, wants[name]), AtMost(name, free[name])))
	}
	text := fmt.Sprintf("ResourceQuota %s: %s", a.Quota.Name, strings.Join(lacking, "; "))
	if n := len(a.Reservations); n > 0 {
		text += fmt.Sprintf(" (reserved for %s: %s)", counted(n, "1 migration", "%d migrations"),
			FormatAmounts(a.Reserved))
	}
	if n := a.claimants; n > 0 {
		text += fmt.Sprintf(" (claimed by %s: %s)",
			counted(n, "1 pod that starts or grows", "%d pods that start or grow"),
			FormatAmounts(a.claimed))
	}
	return errors.New(text)
}

// counted returns the text for one, or the format for several, filled with n.
func counted(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf(several, n)
}

var (
	// byQuota matches the API server's message: quota and requested amounts.
	byQuota = regexp.MustCompile(Exceeded + `: ([^,\s]+), requested: (\S+), used: `)
	// byAccount matches a quota in the text of shortageError, byAccountOf one of its resources.
	byAccount = regexp.MustCompile(
		`ResourceQuota (\S+): ((?:[^;:\s]+: requested [^;,\s]+, free [^;\s]+(?:; )?)+)`)
	byAccountOf = regexp.MustCompile(`([^;:\s]+): requested ([^;,\s]+), free`)
)

// Rejection is a quota and the amounts requested from it by a rejected pod.
type Rejection struct {
	Quota     string
	Requested corev1.ResourceList
}

// Rejections parses the reasons of a rejection, in the API server's format and in that of
// [Lacking]. It ignores other text.
func Rejections(message string) []Rejection {
	var all []Rejection
	for _, match := range byQuota.FindAllStringSubmatch(message, -1) {
		r := Rejection{match[1], corev1.ResourceList{}}
		for pair := range strings.SplitSeq(match[2], ",") {
			name, amount, _ := strings.Cut(pair, "=")
			r.add(name, amount)
		}
		all = append(all, r)
	}
	for _, match := range byAccount.FindAllStringSubmatch(message, -1) {
		r := Rejection{match[1], corev1.ResourceList{}}
		for _, of := range byAccountOf.FindAllStringSubmatch(match[2], -1) {
			r.add(of[1], of[2])
		}
		all = append(all, r)
	}
	return all
}

func (r Rejection) add(name, amount string) {
	if q, err := resource.ParseQuantity(amount); err == nil {
		r.Requested[corev1.ResourceName(name)] = q
	}
}

// StillLacking reports whether the quota still lacks free amounts for the rejected pod, and keeps
// some for migrations.
func (r Rejection) StillLacking(accounts []Account) bool {
	return slices.ContainsFunc(accounts, func(a Account) bool {
		if a.Quota.Name != r.Quota || !a.KeepsForMigrations() {
			return false
		}
		for name, free := range a.Free() {
			if wants := r.Requested[name]; wants.Cmp(free) > 0 {
				return true
			}
		}
		return false
	})
}
