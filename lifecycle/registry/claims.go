package registry

import "github.com/mooring-vm/mooring/api/agentapi"

// Claimant returns a pod other than the one with this UID that has claimed the
// domain: by a launcher that is about to be created, or has not stopped, or of which
// VM processes are left. It looks at each launcher once. A container that is not
// running between two starts claims nothing. is says whether a claimed domain is the
// one in question; it is called under the registry's lock, and must answer from memory.
func (r *Registry) Claimant(is func(domain string) bool, podUID string) (pod agentapi.PodRef, ok bool) {
	return r.ClaimantWith(nil, 0, is, podUID)
}

// ClaimantWith does what Claimant does, and counts in the launchers that the runtime
// listed at that moment and that were not entered yet.
func (r *Registry) ClaimantWith(listed []Launcher, since Generation, is func(domain string) bool, podUID string) (
	pod agentapi.PodRef, ok bool,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.all() {
		if l.claims(is, podUID) {
			return l.Pod, true
		}
	}
	for i := range listed {
		if l := &listed[i]; l.claims(is, podUID) && !r.entered(l, since) {
			return l.Pod, true
		}
	}
	return agentapi.PodRef{}, false
}

// claims reports whether the launcher keeps the domain from a pod.
func (l *Launcher) claims(is func(domain string) bool, podUID string) bool {
	return l.Domain != "" && l.Pod.UID != podUID && l.holds() && is(l.Domain)
}
