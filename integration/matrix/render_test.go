package main

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden file testdata/page.md")

func TestRender(t *testing.T) {
	facts := func(runtime, handler string) map[string]string {
		return map[string]string{
			"kernel": "6.12.1+deb13-cloud-amd64", "runtime": runtime, "nri": "0.12.5",
			handler: "1.1",
		}
	}
	got, err := render([]coreRun{
		{Cell: "trixie/distribution", Handler: "runc", Date: "2026-11-20",
			Facts: facts("containerd 1.7.24", "runc"), Claims: []claim{
				{Claim: "A launcher has its lock", Result: "pass"},
				{Claim: "Agent hangs", Result: "pass", Outcome: "created without its limits"},
				{Claim: "User namespaces", Result: "skip", Reason: "needs runc 1.2"},
			}},
		{Cell: "trixie/distribution", Handler: "crun", Date: "2026-11-21",
			Facts: facts("containerd 1.7.24", "crun"), Claims: []claim{
				{Claim: "A launcher has its lock", Result: "fail", Reason: "the kernel has 8 MiB"},
				{Claim: "Agent hangs", Result: "pass", Outcome: "created without its limits"},
				{Claim: "User namespaces", Result: "pass"},
			}},
		{Cell: "trixie/2.4.2-nri0.12.5", Handler: "runc", Date: "2026-11-21",
			Facts: facts("containerd 2.4.2", "runc"), Claims: []claim{
				{Claim: "A launcher has its lock", Result: "pass"},
				{Claim: "Agent hangs", Result: "pass", Outcome: "refused"},
			}},
	})
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/page.md"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("got (+), %s has (-); -update rewrites the file:\n%s", golden, diff)
	}
}

func TestUpstream(t *testing.T) {
	for fact, want := range map[string]string{
		"containerd 1.7.24~ds1":      "containerd 1.7.24",
		"containerd 2.4.2+unknown":   "containerd 2.4.2",
		"cri-o 1.34.0":               "cri-o 1.34.0",
		"6.12.117+deb13-cloud-amd64": "6.12.117",
		"":                           "",
	} {
		if got := upstream(fact); got != want {
			t.Errorf("%q: %q, want %q", fact, got, want)
		}
	}
}
