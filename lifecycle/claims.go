package lifecycle

import "github.com/mooring-vm/mooring/api/agentapi"

// Claimant returns a pod other than the one with this UID that has claimed the
// domain: by a launcher that is about to be created, or has not stopped. It looks at
// each launcher once. A container that is not running between two starts claims
// nothing.
func (r *Registry) Claimant(domain, podUID string) (pod agentapi.PodRef, ok bool) {
	return r.ClaimantWith(nil, 0, domain, podUID)
}

// ClaimantWith does what Claimant does, and counts in the launchers that the runtime
// listed at that moment and that were not entered yet.
func (r *Registry) ClaimantWith(listed []Launcher, since Generation, domain, podUID string) (pod agentapi.PodRef, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.launchers {
		if l.claims(domain, podUID) {
			return l.Pod, true
		}
	}
	for i := range listed {
		if l := &listed[i]; l.claims(domain, podUID) && !r.entered(l, since) {
			return l.Pod, true
		}
	}
	return agentapi.PodRef{}, false
}

// claims reports whether the launcher keeps the domain from a pod.
func (l *Launcher) claims(domain, podUID string) bool {
	return l.Domain != "" && l.Domain == domain && l.Pod.UID != podUID && l.holds()
}
