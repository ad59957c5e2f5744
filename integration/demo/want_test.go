package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsNotAsWanted(t *testing.T) {
	files := []file{{"memory.high", "1073741824"}, {"pids.max", "512"}}
	for name, test := range map[string]struct {
		want    want
		outcome outcome
		wrong   []string
	}{
		"as wanted":              {want{memlock: "5Gi", files: files}, outcome{memlock: "5Gi", files: files}, nil},
		"the node's default":     {want{memlock: nodesDefault}, outcome{memlock: "8Mi"}, nil},
		"another memory lock":    {want{memlock: "5Gi"}, outcome{memlock: "8Mi"}, []string{"RLIMIT_MEMLOCK should be 5Gi"}},
		"more than default":      {want{memlock: nodesDefault}, outcome{memlock: "5Gi"}, []string{"RLIMIT_MEMLOCK should be 8Mi"}},
		"soft below hard":        {want{memlock: "5Gi"}, outcome{memlock: "soft 8Mi, hard 5Gi"}, []string{"RLIMIT_MEMLOCK should be 5Gi"}},
		"another value":          {want{memlock: "8Mi", files: files}, outcome{memlock: "8Mi", files: []file{{"memory.high", "max"}, files[1]}}, []string{"memory.high should be 1073741824"}},
		"files not looked at":    {want{memlock: "8Mi", files: files}, outcome{memlock: "8Mi", files: files[:1]}, []string{"pids.max should be 512"}},
		"refused as wanted":      {want{refusal: []string{"64Gi", "16Gi"}}, outcome{refusal: "64Gi is more than 16Gi"}, nil},
		"refused for another":    {want{refusal: []string{"64Gi", "16Gi"}}, outcome{refusal: "64Gi is no quantity"}, []string{"the message should contain 16Gi"}},
		"runs, to be refused":    {want{refusal: []string{"64Gi"}}, outcome{memlock: "8Mi"}, []string{"it runs, and should be refused"}},
		"refused, and ought not": {want{memlock: "5Gi"}, outcome{refusal: "no rule"}, []string{"refused, and it should run"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.wrong, test.want.check(test.outcome, "8Mi")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEveryScenarioWantsSomething(t *testing.T) {
	for _, s := range append(whileTheAgentRuns(), whileTheAgentIsStopped()...) {
		if refused := len(s.want.refusal) > 0; refused == (s.want.memlock != "") {
			t.Errorf("%s: wants %+v", s.title, s.want)
		}
	}
}

func TestOneWrongRowIsAnError(t *testing.T) {
	ok, wrong := row{number: 1}, row{number: 2, wrong: []string{"refused, and it should run"}}
	if err := (&table{rows: []row{ok}}).verdict(); err != nil {
		t.Error(err)
	}
	if err := (&table{rows: []row{ok, wrong, ok}}).verdict(); err == nil {
		t.Error("a wrong row is no error")
	}
}
