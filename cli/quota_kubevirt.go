package cli

import (
	"fmt"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// kubevirtJSON holds KubeVirt's settings for migrations.
type kubevirtJSON struct {
	Object   string        `json:"object,omitempty"`  // NAMESPACE/NAME
	Missing  string        `json:"missing,omitempty"` // reason why the settings are missing
	Settings []settingJSON `json:"settings"`          // never null
}

type settingJSON struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Unit    string `json:"unit,omitempty"`
	Default bool   `json:"default"` // value is KubeVirt's default
}

func newKubevirtJSON(r quotaReader) kubevirtJSON {
	if r.kubevirt == nil {
		return kubevirtJSON{Missing: r.missing, Settings: []settingJSON{}}
	}
	set := r.kubevirt.Spec.Configuration.MigrationConfiguration
	if set == nil {
		set = &kubevirtv1.MigrationConfiguration{}
	}
	return kubevirtJSON{Object: r.kubevirt.Namespace + "/" + r.kubevirt.Name,
		Settings: migrationSettings(set)}
}

// migrationSettings returns the settings for parallel migrations and timeouts, with the defaults of
// KubeVirt 1.7 to 1.9 (pkg/virt-config).
func migrationSettings(set *kubevirtv1.MigrationConfiguration) []settingJSON {
	bandwidth := setting[string]("bandwidthPerMigration", nil, "0", "per second")
	if q := set.BandwidthPerMigration; q != nil {
		bandwidth = setting("bandwidthPerMigration", new(q.String()), "", "per second")
	}
	// KubeVirt's default for allowWorkloadDisruption.
	postCopy := set.AllowPostCopy != nil && *set.AllowPostCopy
	all := []settingJSON{
		setting("parallelMigrationsPerCluster", set.ParallelMigrationsPerCluster, 5, ""),
		setting("parallelOutboundMigrationsPerNode", set.ParallelOutboundMigrationsPerNode, 2, ""),
		setting("completionTimeoutPerGiB", set.CompletionTimeoutPerGiB, 150, "s"),
		setting("progressTimeout", set.ProgressTimeout, 150, "s"),
		bandwidth,
		setting("allowAutoConverge", set.AllowAutoConverge, false, ""),
		setting("allowPostCopy", set.AllowPostCopy, false, ""),
		setting("allowWorkloadDisruption", set.AllowWorkloadDisruption, postCopy, ""),
	}
	if set.UtilityVolumesTimeout != nil { // since KubeVirt 1.8
		all = append(all, setting("utilityVolumesTimeout", set.UtilityVolumesTimeout, 0, "s"))
	}
	return all
}

func setting[T any](name string, value *T, otherwise T, unit string) settingJSON {
	if value == nil {
		return settingJSON{name, fmt.Sprint(otherwise), unit, true}
	}
	return settingJSON{name, fmt.Sprint(*value), unit, false}
}
