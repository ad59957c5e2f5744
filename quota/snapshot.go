package quota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// Snapshot is the planner's input for one namespace. The planner does not change its objects, so
// they may come from informers.
type Snapshot struct {
	Now time.Time

	// Live: all objects come from the API server, read in the order reservations, migrations, VMIs,
	// pods, quotas. Otherwise the plan releases no reservation and lowers no quota.
	Live bool

	Namespace    *corev1.Namespace
	Migrations   []*kubevirtv1.VirtualMachineInstanceMigration
	VMIs         []VMI
	Pods         []*corev1.Pod // launchers and attachment pods; the planner ignores other pods
	Reservations []*v1alpha1.MigrationReservation
	Quotas       []*corev1.ResourceQuota

	// Unguarded is why the webhook for pods may not work in the namespace; empty: it works, or the
	// cluster has none. Until it works the plan raises no quota, see [Plan.ProveGuard].
	Unguarded string

	// Parallel are KubeVirt's limits of migrations that run at once; nil: unknown.
	Parallel *Parallel

	// Estimates are estimated target pods by VMI UID, for the VMIs from [VMIsToEstimate].
	Estimates map[types.UID]v1alpha1.ReservedPod
}

// VMI identifies a VirtualMachineInstance.
type VMI struct {
	Name string
	UID  types.UID
}

// Options are settings of the quota controller. Zero values mean defaults.
type Options struct {
	// Prefix, with its slash, is the prefix of the annotations shared with other controllers and
	// users. Default: [DefaultPrefix].
	Prefix string

	// ManagerAnnotation is the namespace annotation with the amounts of a quota manager. Default:
	// [DefaultManagerAnnotation]. "-": no manager.
	ManagerAnnotation string

	// Observe plans for mode observe: writes of quotas and namespaces are withheld, and free amounts
	// are those of mode enforce.
	Observe bool

	// ManagerLabel is the label, with value "true", of quotas under the manager. Default:
	// [DefaultManagerLabel].
	ManagerLabel string
}

// Defaults of [Options].
const (
	DefaultPrefix            = "harvesterhci.io/"
	DefaultManagerAnnotation = "field.cattle.io/resourceQuota"
	DefaultManagerLabel      = "resourcequota.management.cattle.io/default-resource-quota"
)

// Names of annotations under [Options.Prefix].
const (
	SkipName                 = "skipResourceQuotaAutoScaling" // of a quota, set by users
	MigratingName            = "migratingVMs"                 // of a quota, informational
	MaintenanceName          = "maintenanceQuota"             // of a namespace, set by users
	VMAvailableName          = "vmAvailable"                  // of a namespace, informational
	MaintenanceAvailableName = "maintenanceAvailable"         // of a namespace, informational
	HaltedName               = "insufficient-resource-quota"  // of a halted VM, informational
)

// NoManager is the [Options.ManagerAnnotation] of a cluster without a quota manager.
const NoManager = "-"

// WithDefaults returns the options with defaults for zero values.
func (o Options) WithDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.ManagerAnnotation == "" {
		o.ManagerAnnotation = DefaultManagerAnnotation
	}
	if o.ManagerLabel == "" {
		o.ManagerLabel = DefaultManagerLabel
	}
	return o
}
