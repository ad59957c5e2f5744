package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// nodeTest is the test that reports the versions of the node.
const nodeTest = "TestCoreNode"

// event is a line of `go test -json` (see `go doc test2json`).
type event struct {
	Action, Test, Output, Key, Value string
}

// test collects the events of one test.
type test struct {
	name   string
	attrs  map[string]string
	result string   // pass, fail or skip, "" for an unfinished test
	logs   []string // output of t.Log
}

// tests keeps the tests in the order of their start.
type tests struct {
	byName map[string]*test
	order  []*test
}

func readRun(file string) (coreRun, error) {
	f, err := os.Open(file)
	if err != nil {
		return coreRun{}, err
	}
	defer f.Close()
	ts, err := readTests(f)
	if err != nil {
		return coreRun{}, fmt.Errorf("reading %s: %w", file, err)
	}
	return ts.run()
}

// readTests reads the output of `go test -json`. Any other line, such as a compiler error, makes it
// fail.
func readTests(r io.Reader) (*tests, error) {
	ts := &tests{byName: map[string]*test{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%w: %q", err, lines.Text())
		}
		if e.Test != "" {
			ts.add(e)
		}
	}
	return ts, lines.Err()
}

// logLine matches the output of t.Log.
var logLine = regexp.MustCompile(`^\s+\w+_test\.go:\d+: (.*)`)

func (ts *tests) add(e event) {
	t := ts.byName[e.Test]
	if t == nil {
		t = &test{name: e.Test, attrs: map[string]string{}}
		ts.byName[e.Test], ts.order = t, append(ts.order, t)
	}
	switch e.Action {
	case "attr":
		t.attrs[e.Key] = e.Value
	case "output":
		if m := logLine.FindStringSubmatch(e.Output); m != nil {
			t.logs = append(t.logs, strings.TrimSpace(m[1]))
		}
	case "pass", "fail", "skip":
		t.result = e.Action
	}
}

// errNoNode reports a run without a passed nodeTest.
var errNoNode = errors.New(nodeTest + " did not pass")

func (ts *tests) run() (coreRun, error) {
	node := ts.byName[nodeTest]
	if node == nil || node.result != "pass" {
		return coreRun{}, errNoNode
	}
	o := coreRun{Facts: node.attrs}
	for _, t := range ts.order {
		if text := t.attrs["claim"]; text != "" {
			o.Claims = append(o.Claims, ts.claim(t, text))
		}
	}
	slices.SortStableFunc(o.Claims, func(a, b claim) int {
		if topLevel(a.Test) != topLevel(b.Test) {
			return 0
		}
		return cmp.Compare(a.Claim, b.Claim) // subtests start in any order
	})
	return o, nil
}

func topLevel(name string) string {
	top, _, _ := strings.Cut(name, "/")
	return top
}

// claim summarizes a test and its subtests as the claim with this text.
func (ts *tests) claim(t *test, text string) claim {
	c := claim{
		Claim: text, Test: t.name, Result: cmp.Or(t.result, "fail"), Outcome: t.attrs["outcome"],
	}
	if t.result == "" {
		c.Reason = "the test did not end"
	}
	for _, sub := range ts.order {
		if sub != t && !strings.HasPrefix(sub.name, t.name+"/") {
			continue
		}
		c.Outcome = cmp.Or(c.Outcome, sub.attrs["outcome"])
		if c.Result != "pass" && len(sub.logs) > 0 && sub.result == c.Result {
			c.Reason = cmp.Or(c.Reason, strings.Join(sub.logs, "; "))
		}
	}
	return c
}
