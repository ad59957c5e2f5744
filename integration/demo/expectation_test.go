package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCompare(t *testing.T) {
	files := []cgroupFile{{"memory.high", "1073741824"}, {"pids.max", "512"}}
	for name, test := range map[string]struct {
		expectation expectation
		outcome     outcome
		wrong       []string
	}{
		"as expected": {expectation{memlock: "5Gi", files: files},
			outcome{memlock: "5Gi", files: files}, nil},
		"the default": {expectation{memlock: defaultLock}, outcome{memlock: "8Mi"}, nil},
		"another memory lock": {expectation{memlock: "5Gi"}, outcome{memlock: "8Mi"},
			[]string{"RLIMIT_MEMLOCK is 8Mi, should be 5Gi"}},
		"more than the default": {expectation{memlock: defaultLock}, outcome{memlock: "5Gi"},
			[]string{"RLIMIT_MEMLOCK is 5Gi, should be 8Mi"}},
		"soft below hard": {
			expectation{memlock: "5Gi"}, outcome{memlock: "soft 8Mi, hard 5Gi"},
			[]string{"RLIMIT_MEMLOCK is soft 8Mi, hard 5Gi, should be 5Gi"},
		},
		"another file content": {
			expectation{memlock: "8Mi", files: files},
			outcome{memlock: "8Mi", files: []cgroupFile{{"memory.high", "max"}, files[1]}},
			[]string{"memory.high should be 1073741824"},
		},
		"a file is missing": {expectation{memlock: "8Mi", files: files},
			outcome{memlock: "8Mi", files: files[:1]}, []string{"pids.max should be 512"}},
		"refused": {expectation{refusal: []string{"64Gi", "16Gi"}},
			outcome{refusal: "64Gi is more than 16Gi"}, nil},
		"another refusal": {expectation{refusal: []string{"16Gi"}},
			outcome{refusal: "no quantity"},
			[]string{"the refusal should contain 16Gi: no quantity"}},
		"runs unexpectedly": {expectation{refusal: []string{"64Gi"}}, outcome{memlock: "8Mi"},
			[]string{"runs, but should be refused"}},
		"unexpected refusal": {expectation{memlock: "5Gi"}, outcome{refusal: "no rule"},
			[]string{"refused, but should run: no rule"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.wrong, test.expectation.compare(test.outcome, "8Mi")); diff !=
				"" {
				t.Error(diff)
			}
		})
	}
}

func TestOutcomeInOneLine(t *testing.T) {
	for want, o := range map[string]outcome{
		"refused: no rule":      {refusal: "no rule"},
		"RLIMIT_MEMLOCK is 5Gi": {memlock: "5Gi"},
		"RLIMIT_MEMLOCK is 8Mi, memory.high is 1Gi, pids.max is 512": {
			memlock: "8Mi", files: []cgroupFile{{"memory.high", "1073741824"}, {"pids.max", "512"}},
		},
	} {
		if got := o.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestLimitOf(t *testing.T) {
	for prlimit, want := range map[string]string{
		"8388608 8388608":     "8Mi",
		"8388608 5368709120":  "soft 8Mi, hard 5Gi",
		"unlimited unlimited": "unlimited",
	} {
		if got := limitOf(prlimit); got != want {
			t.Errorf("%s: got %q, want %q", prlimit, got, want)
		}
	}
}

func TestEveryLauncherExpectsSomething(t *testing.T) {
	for _, l := range append(withAgent(), withoutAgent()...) {
		if refused := len(l.expect.refusal) > 0; refused == (l.expect.memlock != "") {
			t.Errorf("%s: expects %+v", l.title, l.expect)
		}
	}
}
