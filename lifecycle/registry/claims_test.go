package registry_test

import (
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

func claiming(uid, domain string, state agentapi.State) registry.Launcher {
	return registry.Launcher{Domain: domain, Launcher: agentapi.Launcher{
		Pod: agentapi.PodRef{UID: uid}, Container: agentapi.ContainerRef{Name: "compute",
			ID: "id-" + uid}, State: state,
	}}
}

func named(domain string) func(string) bool {
	return func(other string) bool { return other == domain }
}

func TestClaimant(t *testing.T) {
	r := registry.New()
	for _, l := range []registry.Launcher{
		claiming("u1", "running", agentapi.StateRunning),
		claiming("u2", "creating", agentapi.StateCreating),
		claiming("u3", "stopped", agentapi.StateStopped),
		claiming("u4", "refused", agentapi.StateRefused),
		claiming("u5", "", agentapi.StateRunning),
	} {
		r.Put(l)
	}
	listed := []registry.Launcher{
		claiming("u6", "listed", agentapi.StateRunning),
		claiming("u1", "known better", agentapi.StateRunning),
	}
	for _, c := range []struct{ domain, by, want string }{
		{"running", "u9", "u1"}, {"creating", "u9", "u2"}, {"listed", "u9", "u6"},
		{"running", "u1", ""}, {"listed", "u6", ""}, // their own
		{"stopped", "u9", ""}, {"refused", "u9", ""}, {"known better", "u9", ""}, {"", "u9", ""},
		{"none", "u9", ""},
	} {
		got, ok := r.ClaimantWith(listed, r.Generation(), named(c.domain), c.by)
		if got.UID != c.want || ok != (c.want != "") {
			t.Errorf("domain %q for %s is claimed by %q, %v, want %q", c.domain, c.by,
				got.UID, ok, c.want)
		}
	}
	if got, ok := r.Claimant(named("listed"), "u9"); ok {
		t.Errorf("claimant %+v, want none, because it is not in the registry", got)
	}
}
