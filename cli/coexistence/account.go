package coexistence

import (
	"fmt"
	"slices"
	"strings"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/agent/doctor"
	"github.com/mooring-vm/mooring/internal/plaintext"
	"github.com/mooring-vm/mooring/quota/virt"
)

// Resources of mooring.dev for which the admission policies demand the verb "set".
const (
	LauncherLabels = "launcherlabels"
	PodAnnotations = "podannotations"
)

// virtController is the value of KubeVirt's label on pods of virt-controller.
const virtController = "virt-controller"

// Account returns the user name of virt-controller, as Mooring's webhooks expect it.
func Account(object *kubevirtv1.KubeVirt) string {
	return virt.Cluster{Namespace: object.Namespace}.Controller()
}

// checkAccount examines virt-controller's account, which creates launcher pods.
func checkAccount(s *subject) finding {
	want := Account(s.object)
	if other := s.otherAccount(want); other != "" {
		return finding{doctor.Problem, "virt-controller runs as " + other,
			"Mooring knows " + want + " only: it treats target pods of migrations as new VMs, " +
				"and refuses them in reserved quota",
			"remove serviceAccountName from the patches in spec.customizeComponents"}
	}
	switch {
	case s.AdmissionErr != nil:
		return finding{doctor.Unknown, plaintext.OneLine(s.AdmissionErr.Error()),
			"it is not known whether " + want + " may create launchers",
			remedy(s.AdmissionErr, `get the verbs "get" for validatingadmissionpolicybindings `+
				`and "create" for subjectaccessreviews`)}
	case len(s.Admission.Missing) > 0:
		return s.mayNotSet(want)
	case !s.Admission.Exists:
		return finding{doctor.OK, "no admission policy of Mooring",
			"virt-controller may create launchers", ""}
	}
	return finding{doctor.OK, want, "virt-controller may create launchers", ""}
}

// otherAccount returns an unexpected account of a virt-controller pod, or an empty string.
func (s *subject) otherAccount(want string) string {
	for i := range s.Pods {
		pod := &s.Pods[i]
		account := "system:serviceaccount:" + pod.Namespace + ":" + pod.Spec.ServiceAccountName
		if pod.Labels[kubevirtv1.AppLabel] == virtController && account != want {
			return account
		}
	}
	return ""
}

func (s *subject) mayNotSet(account string) finding {
	status, refuses := doctor.Note, "in mode enforce the API server would refuse "
	if s.Admission.Denies {
		status, refuses = doctor.Problem, "the API server refuses "
	}
	launchers := "all launchers"
	if !slices.Contains(s.Admission.Missing, LauncherLabels) {
		launchers = "launchers with annotations of Mooring"
	}
	return finding{status, fmt.Sprintf("%s lacks the verb \"set\" for %s.mooring.dev in all "+
		"namespaces", account, strings.Join(s.Admission.Missing, " and ")), refuses + launchers,
		fmt.Sprintf("name the account in the chart's value annotations.setters: "+
			`{"kind":"ServiceAccount","name":"kubevirt-controller","namespace":%q}`,
			s.object.Namespace)}
}
