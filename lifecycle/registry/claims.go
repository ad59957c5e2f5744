package registry

import "github.com/mooring-vm/mooring/api/agentapi"

// Claimant returns a pod other than the one with this UID that claims the domain: its launcher is
// being created, runs, or has left VM processes behind. A container between two starts has no
// claim. is reports whether a claimed domain is the one in question. It runs under the registry's
// lock and must not block.
func (r *Registry) Claimant(
	is func(domain string) bool, podUID string,
) (pod agentapi.PodRef, ok bool) {
	return r.ClaimantWith(nil, 0, is, podUID)
}

// HasLiveClaimant reports whether Claimant finds a pod whose launcher has not ended.
func (r *Registry) HasLiveClaimant(is func(domain string) bool, podUID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.all() {
		if !l.Ended && l.claims(is, podUID) {
			return true
		}
	}
	return false
}

// ClaimantWith is Claimant with the launchers of the runtime's list, too. The list is of the
// generation since, and the registry may lack some of them.
func (r *Registry) ClaimantWith(listed []Launcher, since Generation, is func(domain string) bool,
	podUID string) (
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

// claims reports whether the launcher claims the domain against this pod.
func (l *Launcher) claims(is func(domain string) bool, podUID string) bool {
	return l.Domain != "" && l.Pod.UID != podUID && l.inAccount() && is(l.Domain)
}
