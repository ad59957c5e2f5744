package decide_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/decide/decidetest"
)

// The reported facts lead to the decision of the full facts.
func TestReportedFactsDecide(t *testing.T) {
	enforce := decidetest.Policy(t, policy.Enforce)
	rapid.Check(t, func(t *rapid.T) {
		full := drawFacts(t)
		full.Exists, full.SpecMemlock, full.Inherited = false, nil, nil
		full.NodeGranted, full.DomainClaimant = 0, nil
		full.CPUs = rapid.Int64Range(0, 64000).Draw(t, "CPUs")
		full.Annotations["example.com/other"] = "x"
		if rapid.Bool().Draw(t, "overhead of KubeVirt") {
			full.Annotations[decide.KubeVirtOverheadKey] = "1000"
			full.Annotations[api.RequiresLockKey], full.Annotations[api.GuestMemoryKey] =
				"true", "4Gi"
		}
		if rapid.Bool().Draw(t, "labels") {
			full.Labels = map[string]string{"kubevirt.io": "virt-launcher"}
		}
		if !full.ServiceAccountKnown {
			full.ServiceAccount = ""
		}
		reported := &agentapi.Launcher{Pod: full.Pod, Facts: full.Report()}
		reported.Container.Name, reported.Limits.Memory = full.Container, full.MemoryLimit
		got, ok := decide.FactsOf(reported)
		if !ok {
			t.Fatal("no facts")
		}
		if _, kept := got.Annotations["example.com/other"]; kept {
			t.Fatal("an annotation without effect is reported")
		}
		want := decide.Container(enforce, full)
		if diff := cmp.Diff(want, decide.Container(enforce, got)); diff != "" {
			t.Fatalf("(-full facts +reported facts)\n%s", diff)
		}
	})
}

func TestInheritedLimitOfAReport(t *testing.T) {
	for given, want := range map[string]string{"unlimited": "unlimited", "8Gi": "8Gi", "": ""} {
		l := &agentapi.Launcher{Settings: []agentapi.Setting{{Name: agentapi.MemlockSetting,
			Requested: "4Gi", Given: given, Status: agentapi.StatusYielded}}}
		got := ""
		if limit := decide.Inherited(l); limit != nil {
			got = limit.Hard.String()
		}
		if got != want {
			t.Errorf("given %q: inherited %q, want %q", given, got, want)
		}
		l.Settings[0].Status = agentapi.StatusApplied
		if decide.Inherited(l) != nil {
			t.Errorf("given %q: a limit of Mooring counts as inherited", given)
		}
	}
	if _, ok := decide.FactsOf(&agentapi.Launcher{}); ok {
		t.Error("facts without a report")
	}
}
