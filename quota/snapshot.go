package quota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// Snapshot is all that the planner knows of one namespace. Its objects may be those of
// informers: they are never changed.
type Snapshot struct {
	Now time.Time

	// Live says that all of it was read from the API server, not from caches: reservations,
	// migrations, VMIs, pods and quotas, in this order. Without it nothing is released and no
	// quota is lowered.
	Live bool

	Namespace    *corev1.Namespace
	Migrations   []*kubevirtv1.VirtualMachineInstanceMigration
	VMIs         []VMI
	Pods         []*corev1.Pod // launchers and attachment pods; others do no harm
	Reservations []*v1alpha1.MigrationReservation
	Quotas       []*corev1.ResourceQuota

	// Estimates are what target pods are likely to be charged, by the UID of their VMI, for
	// those that [ToEstimate] wants to know it of. One that is missing is not known.
	Estimates map[types.UID]v1alpha1.ReservedPod
}

// VMI is what is to be known of a VirtualMachineInstance: its metadata.
type VMI struct {
	Name string
	UID  types.UID
}

// Options are the settings of the quota controller. The zero value means the defaults.
type Options struct {
	// Timeout is how long a migration that a quota rejects is reserved for, from the moment
	// that the rejection was seen. Default: [DefaultTimeout].
	Timeout time.Duration

	// Prefix is that of the annotations which other controllers read and users write, with
	// its slash. Default: [DefaultPrefix].
	Prefix string

	// ManagerAnnotation is the namespace's annotation in which a manager of quotas keeps
	// their base. Default: [DefaultManagerAnnotation]. "-": there is none.
	ManagerAnnotation string

	// ManagerLabel is the label, with value "true", of the quota that the manager keeps.
	// Default: [DefaultManagerLabel].
	ManagerLabel string
}

// Defaults of [Options].
const (
	DefaultTimeout           = 5 * time.Minute
	DefaultPrefix            = "harvesterhci.io/"
	DefaultManagerAnnotation = "field.cattle.io/resourceQuota"
	DefaultManagerLabel      = "resourcequota.management.cattle.io/default-resource-quota"
)

// Names of annotations under [Options.Prefix].
const (
	SkipName                 = "skipResourceQuotaAutoScaling" // of a quota, by users
	MigratingName            = "migratingVMs"                 // of a quota, for readers
	MaintenanceName          = "maintenanceQuota"             // of a namespace, by users
	VMAvailableName          = "vmAvailable"                  // of a namespace, for readers
	MaintenanceAvailableName = "maintenanceAvailable"         // likewise
	HaltedName               = "insufficient-resource-quota"  // of a VM that was halted, for readers
)

// NoManager is the [Options.ManagerAnnotation] of a cluster without a manager of quotas.
const NoManager = "-"

// WithDefaults returns the options with the defaults for what is not set.
func (o Options) WithDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
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
