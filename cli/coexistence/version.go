package coexistence

import (
	"fmt"
	"strings"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/agent/doctor"
	"github.com/mooring-vm/mooring/internal/plaintext"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
)

// unreadable is the effect of a KubeVirt object refused by [virt.Read].
const unreadable = "Mooring's webhooks let launchers and VMs pass as they are: launchers get no " +
	"memory lock, sidecar and preStop hook, and VMs start without a check of their quota"

// checkVersion examines the fields behind all of Mooring's computations.
func checkVersion(s *subject) finding {
	observed := s.object.Status.ObservedKubeVirtVersion
	target := s.object.Status.TargetKubeVirtVersion
	switch {
	case observed == "" && target == "":
		return finding{doctor.Problem,
			"status.observedKubeVirtVersion, status.targetKubeVirtVersion: none", unreadable,
			"wait until virt-operator has deployed KubeVirt; if status.phase does not become " +
				"Deployed, look at its log"}
	case s.err != nil:
		return finding{doctor.Problem, plaintext.OneLine(s.err.Error()), unreadable,
			"correct the field; a version that is not in the table needs another Mooring"}
	case observed != "" && target != "" && observed != target:
		return updating(observed, target)
	case s.before("1.7"):
		return finding{doctor.Note, "KubeVirt " + s.version.String(),
			"Mooring is tested with KubeVirt 1.7 and newer", "update KubeVirt"}
	}
	return finding{doctor.OK, "KubeVirt " + s.version.String(),
		"Mooring knows this version's overhead and memory lock", ""}
}

// updating describes a KubeVirt during its update. virt-operator writes the observed version after
// the update (updateKubeVirt, SetObservedDeploymentConfig).
func updating(observed, target string) finding {
	found := fmt.Sprintf("status.observedKubeVirtVersion: %s, status.targetKubeVirtVersion: %s",
		observed, target)
	if _, err := kubevirt.ParseVersion(target); err != nil {
		return finding{doctor.Problem, found, "after KubeVirt's update Mooring does not know its " +
			"version: " + plaintext.OneLine(err.Error()),
			"update Mooring before KubeVirt's update ends"}
	}
	return finding{doctor.Note, found, "until KubeVirt's update ends, new launchers get the " +
		"overhead and the memory lock of version " + observed,
		"wait for the end of the update; KubeVirt's lock applies in any case, and a launcher's " +
			"next start or migration gets the new overhead"}
}

// before reports whether the version is older than a release of the table.
func (s *subject) before(release string) bool {
	v, err := kubevirt.ParseVersion(release)
	return err == nil && s.version.Compare(v) < 0
}

func several(objects []kubevirtv1.KubeVirt) finding {
	var names []string
	for i := range objects {
		names = append(names, objects[i].Namespace+"/"+objects[i].Name)
	}
	return finding{doctor.Problem, fmt.Sprintf("%d objects of kind KubeVirt: %s", len(objects),
		strings.Join(names, ", ")), unreadable,
		"delete the objects that virt-operator does not use: KubeVirt accepts one in a cluster"}
}
