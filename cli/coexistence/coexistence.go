// Package coexistence examines the KubeVirt of a cluster. It finds settings that defeat or limit
// Mooring. The checks are pure.
package coexistence

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/agent/doctor"
	"github.com/mooring-vm/mooring/internal/plaintext"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/quota/virt"
)

// Facts describe the KubeVirt of a cluster, and Mooring beside it.
type Facts struct {
	// Objects are the KubeVirt objects of all namespaces. ObjectsErr says why they are unknown.
	Objects    []kubevirtv1.KubeVirt
	ObjectsErr error

	// Pods are the pods of [PodSelector] in the namespace of the KubeVirt object. PodsErr says why
	// they are unknown.
	Pods    []corev1.Pod
	PodsErr error

	// Agents are the nodes with an agent.
	Agents []string

	// Admission describes Mooring's admission policies. AdmissionErr says why they are unknown.
	Admission    Admission
	AdmissionErr error

	// Plugin reports whether the chart's Plugin exists. PluginErr says why this is unknown.
	Plugin    bool
	PluginErr error
}

// Admission describes Mooring's admission policies, as they apply to virt-controller.
type Admission struct {
	Exists  bool     // the policies are installed
	Denies  bool     // they refuse requests, as in mode enforce; otherwise they warn
	Missing []string // of LauncherLabels and PodAnnotations: virt-controller lacks the right
}

// subject is the KubeVirt under examination.
type subject struct {
	Facts
	object  *kubevirtv1.KubeVirt
	version kubevirt.Version // main if it is unknown
	err     error            // why Mooring cannot read the object
}

// finding is a [doctor.Finding] without the check's name.
type finding struct {
	status             doctor.Status
	found, means, mend string
}

// check derives one finding.
type check struct {
	name string
	run  func(*subject) finding
}

const versionCheck = "kubevirt-version"

func checks() []check {
	return []check{
		{versionCheck, checkVersion},
		{"kubevirt-account", checkAccount},
		{"kubevirt-nodes", checkNodes},
		{"kubevirt-plugin", checkPlugin},
		{"kubevirt-headroom", checkHeadroom},
		{"kubevirt-overcommit", checkOvercommit},
		{"kubevirt-bindings", checkBindings},
		{"kubevirt-runtime-class", checkRuntimeClass},
	}
}

// Examine returns one finding for each check, and none for a cluster without a KubeVirt object.
// Where the cluster has several objects, or they are unknown, only the version is examined.
func Examine(f Facts) []doctor.Finding {
	switch {
	case f.ObjectsErr != nil:
		return []doctor.Finding{unread(f.ObjectsErr).named(versionCheck)}
	case len(f.Objects) == 0:
		return nil
	case len(f.Objects) > 1:
		return []doctor.Finding{several(f.Objects).named(versionCheck)}
	}
	s := newSubject(f)
	var all []doctor.Finding
	for _, c := range checks() {
		all = append(all, c.run(s).named(c.name))
	}
	return all
}

// newSubject reads the only KubeVirt object as Mooring's webhooks do.
func newSubject(f Facts) *subject {
	s := &subject{Facts: f, object: &f.Objects[0], version: kubevirt.Main()}
	_, s.err = virt.FromObject(s.object)
	status := s.object.Status
	v, err := kubevirt.ParseVersion(cmp.Or(status.ObservedKubeVirtVersion,
		status.TargetKubeVirtVersion))
	if err == nil {
		s.version = v
	}
	return s
}

func (f finding) named(check string) doctor.Finding {
	return doctor.Finding{Check: check, Status: f.status, Found: f.found, Means: f.means,
		Mend: f.mend}
}

func unread(err error) finding {
	return finding{doctor.Unknown, plaintext.OneLine(err.Error()),
		"it is not known whether settings of KubeVirt defeat Mooring",
		remedy(err, `get the verb "list" for kubevirts`)}
}

// remedy returns the next step after a failed read: the missing right, if the API server denied the
// request.
func remedy(err error, right string) string {
	if apierrors.IsForbidden(err) {
		return right
	}
	return "run the command again"
}
