package agentapi

// Facts are the parts of a pod that the decision about its launcher reads, beside names and
// limits. With them another policy can decide about the same launcher.
type Facts struct {
	// Labels of the pod, without which no profile recognises it. Empty if an annotation names the
	// launcher container, because that annotation decides.
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations of the pod that can change the decision.
	Annotations map[string]string `json:"annotations,omitempty"`

	// ServiceAccount of the pod; nil: the agent does not know it.
	ServiceAccount *string `json:"serviceAccount,omitempty"`

	CPUs      int64 `json:"cpus,omitempty"`      // of the container, in thousandths
	HugePages int64 `json:"hugePages,omitempty"` // the pod's limit in bytes
}
