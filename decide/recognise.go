package decide

import (
	"fmt"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/internal/plaintext"
)

// Recognise returns the name of a pod's launcher container: from the launcher annotation, or else
// from the profile that matches the pod's labels. ok is false for plain pods, which Mooring leaves
// alone.
func Recognise(
	p *policy.Policy, labels, annotations map[string]string,
) (container string, ok bool) {
	// If the annotation is malformed and a profile matches, api.Parse finds the fault again.
	// The launcher is then refused.
	if container, ok, _ := api.Launcher(annotations); ok {
		return container, true
	}
	if profile, ok := p.Profile(labels); ok {
		return profile.Container, true
	}
	return "", false
}

// StrayAnnotations returns a remark on a plain pod with Mooring's annotations, which have no
// effect. Plain pods are never refused.
func StrayAnnotations(
	p *policy.Policy, labels, annotations map[string]string,
) (remark Remark, ok bool) {
	if !api.Relevant(annotations) {
		return Remark{}, false
	}
	if _, launcher := Recognise(p, labels, annotations); launcher {
		return Remark{}, false
	}
	why := fmt.Sprintf("no annotation %s names a container of it, "+
		"and no profile of the node policy matches its labels", api.LauncherKey)
	if _, _, err := api.Launcher(annotations); err != nil {
		why = plaintext.OneLine(err.Error())
	}
	return Remark{
		Type:   agentapi.Warning,
		Reason: agentapi.ReasonAnnotationInvalid,
		Message: "annotations under " + api.Suffix + " are ignored, because the pod is not known " +
			"to run a VM: " + why,
	}, true
}

// ConflictingLauncher returns a remark on a pod whose annotation and profile name different
// launcher containers. One of the two is probably a mistake.
func ConflictingLauncher(
	p *policy.Policy, labels, annotations map[string]string,
) (remark Remark, ok bool) {
	name, annotated, _ := api.Launcher(annotations)
	profile, known := p.Profile(labels)
	if !annotated || !known || name == profile.Container {
		return Remark{}, false
	}
	return Remark{
		Type:   agentapi.Warning,
		Reason: agentapi.ReasonAnnotationInvalid,
		Message: fmt.Sprintf("annotation %s names container %q, and profile %q of the node "+
			"policy %q: "+
			"the annotation holds, so nothing is set for container %[4]q",
			api.LauncherKey, name, profile.Name, profile.Container),
	}, true
}
