package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadRun(t *testing.T) {
	got, err := readRun("testdata/events.json")
	if err != nil {
		t.Fatal(err)
	}
	want := coreRun{
		Facts: map[string]string{"kernel": "6.12.1", "runtime": "containerd 2.1.9", "nri": "0.8.0",
			"runc": "1.3.6"},
		Claims: []claim{
			{Claim: "a launcher has its lock", Test: "TestCoreLock", Result: "pass"},
			{Claim: "hangs, a launcher that does not require it", Test: "TestCoreHung/b",
				Result: "fail", Reason: "it was refused"},
			{Claim: "hangs, a launcher that requires it", Test: "TestCoreHung/a", Result: "pass",
				Outcome: "created"},
			{Claim: "user namespaces", Test: "TestCoreUserNamespace", Result: "pass",
				Outcome: "none there"},
			{Claim: "something of another runtime", Test: "TestCoreOther", Result: "skip",
				Reason: "needs a validator"},
			{Claim: "the last", Test: "TestCoreLast", Result: "fail",
				Reason: "the test did not end"},
		},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(coreRun{})); diff != "" {
		t.Errorf("got (+), want (-):\n%s", diff)
	}
}

func TestRunWithoutPassedNodeTest(t *testing.T) {
	for name, events := range map[string]string{
		"not run": "",
		"failed": `{"Action":"run","Test":"TestCoreNode"}` + "\n" +
			`{"Action":"fail","Test":"TestCoreNode"}`,
	} {
		ts, err := readTests(strings.NewReader(events))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ts.run(); !errors.Is(err, errNoNode) {
			t.Errorf("%s: got %v, want %v", name, err, errNoNode)
		}
	}
}

func TestReadTestsRejectsOtherLines(t *testing.T) {
	_, err := readTests(strings.NewReader("panic: boom\n"))
	if err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("got %v, want an error with the line", err)
	}
}

func FuzzReadTests(f *testing.F) {
	seed, err := os.ReadFile("testdata/events.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(seed))
	f.Add(`{"Action":"attr","Test":"TestCoreNode","Key":"claim"}`)
	f.Fuzz(func(t *testing.T, events string) {
		ts, err := readTests(strings.NewReader(events))
		if err != nil {
			return
		}
		run, err := ts.run()
		if err != nil {
			return
		}
		for _, c := range run.Claims {
			if c.Claim == "" || c.Test == "" || c.Result == "" {
				t.Errorf("claim without text, test or result: %+v", c)
			}
		}
	})
}
