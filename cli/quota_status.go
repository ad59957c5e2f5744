package cli

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// quotaStatusJSON is the output of `quota status -o json`: a stable contract. Its lists are never
// null.
type quotaStatusJSON struct {
	Namespace   string          `json:"namespace"`
	Maintenance maintenanceJSON `json:"maintenance"`
	Quotas      []quotaJSON     `json:"quotas"`
	Migrations  []migrationJSON `json:"migrations"`
	KubeVirt    kubevirtJSON    `json:"kubevirt"`
	Faults      []faultJSON     `json:"faults"`
	Notes       []string        `json:"notes"`
}

// names returns the quotas in the form of -o name.
func (s quotaStatusJSON) names() []string {
	var all []string
	for _, q := range s.Quotas {
		all = append(all, "resourcequota/"+q.Name)
	}
	return all
}

// maintenanceJSON is the maintenance share of the base.
type maintenanceJSON struct {
	CPU    int64 `json:"cpuPercent"`
	Memory int64 `json:"memoryPercent"`
	Strict bool  `json:"strict"`
}

type quotaJSON struct {
	Name      string         `json:"name"`
	OptedOut  bool           `json:"optedOut"`
	Resources []resourceJSON `json:"resources"`
}

// resourceJSON holds quantities. Unknown and missing ones are empty.
type resourceJSON struct {
	Name             string `json:"name"`
	Base             string `json:"base,omitempty"`
	Reserved         string `json:"reserved,omitempty"`
	Wanted           string `json:"wanted,omitempty"` // desired hard limit
	Hard             string `json:"hard,omitempty"`
	Used             string `json:"used,omitempty"`
	Free             string `json:"free,omitempty"`
	VMShare          string `json:"vmShare,omitempty"`
	MaintenanceShare string `json:"maintenanceShare,omitempty"`
	InForce          bool   `json:"inForce"` // status.hard is at least the desired limit
}

// migrationJSON is a running migration, or one with a reservation.
type migrationJSON struct {
	VM        string `json:"vm"`
	Migration string `json:"migration"`
	UID       string `json:"uid"`
	// KubeVirt's phase, or "gone"; empty: unknown
	State    string              `json:"state,omitempty"`
	Rejected bool                `json:"rejected"`        // by a quota, according to KubeVirt
	Phase    v1alpha1.Phase      `json:"phase,omitempty"` // of the reservation; empty: none
	Reserved corev1.ResourceList `json:"reserved"`
	Waiting  *waitingJSON        `json:"waiting,omitempty"`
}

// waitingJSON says why a quota rejects the target pod of a migration.
type waitingJSON struct {
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

type faultJSON struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Message string `json:"message"`
}

func newQuotaStatus(r quotaReader, o quota.Options) quotaStatusJSON {
	accounts, faults := quota.Accounts(r.snapshot, o)
	share, _ := quota.MaintenanceOf(r.snapshot.Namespace, o) // an error is among the faults
	s := quotaStatusJSON{
		Namespace:   r.namespace,
		Maintenance: maintenanceJSON(share),
		Quotas:      []quotaJSON{},
		Migrations:  newMigrationsJSON(r),
		KubeVirt:    newKubevirtJSON(r),
		Faults:      []faultJSON{},
		Notes:       append([]string{}, r.notes...),
	}
	for _, a := range accounts {
		s.Quotas = append(s.Quotas, newQuotaJSON(a))
	}
	for _, f := range faults {
		message := strings.TrimPrefix(f.Err.Error(), f.Kind+" "+f.Name+": ")
		s.Faults = append(s.Faults, faultJSON{f.Kind, f.Name, message})
	}
	return s
}

func newQuotaJSON(a quota.Account) quotaJSON {
	q := quotaJSON{Name: a.Quota.Name, OptedOut: a.OptedOut, Resources: []resourceJSON{}}
	all := maps.Clone(a.Base)
	maps.Copy(all, a.Quota.Status.Hard)
	free := a.Free()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := resourceJSON{
			Name:             string(name),
			Base:             amount(a.Base, name),
			Reserved:         amount(a.Reserved, name),
			Wanted:           amount(a.Desired, name),
			Hard:             amount(a.Quota.Status.Hard, name),
			Used:             amount(a.Quota.Status.Used, name),
			Free:             amount(free, name),
			VMShare:          amount(a.Shares.VM, name),
			MaintenanceShare: amount(a.Shares.Maintenance, name),
			InForce:          reaches(a.Quota.Status.Hard, a.Desired, name),
		}
		if r.Base != "" {
			r.Reserved = cmp.Or(r.Reserved, "0")
		}
		q.Resources = append(q.Resources, r)
	}
	return q
}

// amount returns the amount of a resource, or an empty string.
func amount(list corev1.ResourceList, name corev1.ResourceName) string {
	q, ok := list[name]
	if !ok {
		return ""
	}
	return q.String()
}

// reaches reports whether hard covers the desired amount of a resource.
func reaches(hard, wanted corev1.ResourceList, name corev1.ResourceName) bool {
	has, known := hard[name]
	return known && has.Cmp(wanted[name]) >= 0
}

func newMigrationsJSON(r quotaReader) []migrationJSON {
	all := []migrationJSON{}
	byUID := map[string]*kubevirtv1.VirtualMachineInstanceMigration{}
	for _, m := range r.snapshot.Migrations {
		byUID[string(m.UID)] = m
	}
	for _, reservation := range r.snapshot.Reservations {
		j := reservationJSON(reservation)
		if m := byUID[j.UID]; m != nil {
			j.observe(m)
		} else if r.known {
			j.State = "gone"
		}
		delete(byUID, j.UID)
		all = append(all, j)
	}
	for uid, m := range byUID {
		if !m.IsFinal() {
			j := migrationJSON{VM: m.Spec.VMIName, Migration: m.Name, UID: uid,
				Reserved: corev1.ResourceList{}}
			j.observe(m)
			all = append(all, j)
		}
	}
	slices.SortFunc(all, func(a, b migrationJSON) int {
		return cmp.Or(cmp.Compare(a.VM, b.VM), cmp.Compare(a.Migration, b.Migration),
			cmp.Compare(a.UID, b.UID))
	})
	return all
}

// reservationJSON describes a reservation and its VM.
func reservationJSON(r *v1alpha1.MigrationReservation) migrationJSON {
	j := migrationJSON{
		VM: r.Spec.VMI.Name, Migration: r.Spec.Migration.Name, UID: r.Name,
		Phase: cmp.Or(r.Status.Phase, v1alpha1.PhaseReserved), Reserved: corev1.ResourceList{},
	}
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionWaiting)
	if c != nil && c.Status == metav1.ConditionTrue {
		j.Waiting = &waitingJSON{Reason: c.Reason, Message: c.Message,
			Since: c.LastTransitionTime.Time}
	}
	for _, pod := range r.Spec.Pods {
		for name, q := range pod.Charge {
			sum := j.Reserved[name].DeepCopy()
			sum.Add(q)
			j.Reserved[name] = sum
		}
	}
	return j
}

// observe adds KubeVirt's status.
func (j *migrationJSON) observe(m *kubevirtv1.VirtualMachineInstanceMigration) {
	j.State = cmp.Or(string(m.Status.Phase), string(kubevirtv1.MigrationPending))
	for _, c := range m.Status.Conditions {
		if c.Type == kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota &&
			c.Status == corev1.ConditionTrue {
			j.Rejected = true
		}
	}
}
