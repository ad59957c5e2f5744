package tie_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// The pages that this test reads.
const (
	lifecyclePage = "explanation/lifecycle.md"
	proofsPage    = "explanation/lifecycle-proofs.md"
	eventsPage    = "reference/events.md"
)

func readPage(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documented returns the rows of the page's table with these columns, without code marks.
func documented(t *testing.T, page string, columns ...string) (rows [][]string) {
	t.Helper()
	_, table, ok := strings.Cut(readPage(t, page), "\n| "+strings.Join(columns, " | ")+" |\n")
	if !ok {
		t.Fatalf("no table of %v", columns)
	}
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") {
			if strings.HasPrefix(line, "|---") {
				continue
			}
			break
		}
		rows = append(rows, strings.Split(strings.Trim(strings.ReplaceAll(line, "`", ""), "| \n"),
			" | "))
	}
	if len(rows) == 0 {
		t.Fatalf("the table of %v is empty", columns)
	}
	return rows
}

// stepAll steps a tie through the events, a second apart. It returns the last actions.
func stepAll(t *testing.T, terms tie.Terms, events ...any) (tie.Tie, []tie.Action) {
	t.Helper()
	current, scan, now := newTie(terms), uint64(0), booted
	var actions []tie.Action
	for _, in := range events {
		now = now.Add(1e9)
		switch in.(type) {
		case nothingFound:
			in = tie.Scanned{ID: scan}
		case due:
			at, ok := current.Due()
			if !ok {
				t.Fatalf("no due time: %+v", current)
			}
			now, in = max(now, at), timePassed
		}
		current, actions = tie.Step(current, now, in.(tie.Input))
		scan = lastScan(actions, scan)
	}
	return current, actions
}

// TestDocumentedPhases: each documented change of a phase happens.
func TestDocumentedPhases(t *testing.T) {
	paths := map[string][]any{
		"Registered": {launcherStarted, heartbeat},
		"Active":     {launcherStarted, heartbeat, podStarts},
		"Draining":   {launcherStarted, heartbeat, podStarts, stopRequested, vmEnded},
		"Done":       {launcherStarted, heartbeat, stopRequested, nothingFound{}},
	}
	events := map[string][]any{
		"a VM process starts":                           {podStarts},
		"the last VM process ends":                      {vmEnded},
		"the pod requests the stop":                     {stopRequested},
		"the launcher is proven gone":                   {launcherEnded},
		"the launcher hangs, and the policy says stop":  {due{}},
		"a scan finds no VM process":                    {nothingFound{}},
		"a VM process starts, and the launcher lives":   {podStarts},
		"a VM process starts, and the launcher is gone": {launcherEnded, nothingFound{}, podStarts},
	}
	for _, row := range documented(t, lifecyclePage, "From", "Event", "To") {
		path, event := paths[row[0]], events[row[1]]
		if path == nil || event == nil {
			t.Errorf("%v: unknown to this test", row)
			continue
		}
		if tie, _ := stepAll(t, enforceTerms(), path...); string(tie.Phase) != row[0] {
			t.Errorf("%v starts in %s", row, tie.Phase)
		}
		last, _ := stepAll(t, enforceTerms(), slices.Concat(path, event)...)
		if string(last.Phase) != row[2] {
			t.Errorf("%v ends in %s", row, last.Phase)
		}
	}
}

// TestDocumentedStages: each documented change of a stage happens, with the documented action.
func TestDocumentedStages(t *testing.T) {
	paths := map[string][]any{
		"due; node-level": {nodeStarts, stopRequested},
		"due; requested by the pod, and the launcher lives": {podStarts, stopRequested},
		"due; the pod has a stop handler": {podStarts, handlerConnected,
			launcherEnded},
		"due; no client can ask the guest":  {podStarts, launcherEnded},
		"the grace period is over":          {podStarts, stopRequested, due{}},
		"node-level; asked ten seconds ago": {nodeStarts, stopRequested, due{}},
		"libvirt has no such domain":        {nodeStarts, stopRequested, askFailed(1, true)},
		"three requests to libvirt, and all have failed": {
			nodeStarts, stopRequested, askFailed(1, false), due{}, askFailed(2, false), due{},
			askFailed(3, false),
		},
		"of the pod; no client is left to ask the guest": {podStarts, stopRequested, launcherEnded},
		"node-level; the stop handler has left": {
			nodeStarts, handlerConnected, launcherEnded, tie.StopHandlerDisconnected{},
		},
		"the term period is over": {podStarts, launcherEnded, due{}},
		"the process still runs":  {podStarts, launcherEnded, due{}, due{}},
		"the policy changes to observe mode": {
			podStarts, launcherEnded, tie.TermsChanged{Terms: observeTerms()},
		},
	}
	effects := map[string]string{
		"shutdown request to libvirt": "libvirtShutdown(7)",
		"stop request to the pod":     "podShutdown(7)",
		"SIGTERM":                     "terminate(7)",
		"SIGKILL":                     "kill(7)",
		"SIGKILL again":               "kill(7)",
		"none":                        "",
	}
	for _, row := range documented(t, lifecyclePage, "From", "When", "To", "Action") {
		path := paths[row[1]]
		effect, known := effects[row[3]]
		if path == nil || !known {
			t.Errorf("%v: unknown to this test", row)
			continue
		}
		before, _ := stepAll(t, noWatchdog(), path[:len(path)-1]...)
		after, actions := stepAll(t, noWatchdog(), path...)
		if from := stageNames[before.VMs[0].Stage]; row[0] != "any" && from != row[0] {
			t.Errorf("%v starts in %s", row, from)
		}
		if to := stageNames[after.VMs[0].Stage]; to != row[2] {
			t.Errorf("%v ends in %s", row, to)
		}
		if got := showEffects(actions); got != effect {
			t.Errorf("%v gives %q", row, got)
		}
	}
}

var arrow = regexp.MustCompile(`(?m)^ +(\w+) --> (\w+)$`)

// TestDocumentedDiagram: the diagram shows the moves of the table.
func TestDocumentedDiagram(t *testing.T) {
	drawn, listed := map[move]bool{}, documentedMoves(t, "From", "Event", "To")
	for _, m := range arrow.FindAllStringSubmatch(readPage(t, lifecyclePage), -1) {
		drawn[move{m[1], m[2]}] = true
	}
	if !reflect.DeepEqual(drawn, listed) {
		t.Errorf("the diagram shows %v, the table %v", drawn, listed)
	}
}

func documentedMoves(t *testing.T, columns ...string) map[move]bool {
	moves := map[move]bool{}
	for _, row := range documented(t, lifecyclePage, columns...) {
		moves[move{row[0], row[2]}] = true
	}
	return moves
}

// TestDocumentationIsComplete: the tables name each phase, stage and Event.
func TestDocumentationIsComplete(t *testing.T) {
	phases := documentedMoves(t, "From", "Event", "To")
	stages := documentedMoves(t, "From", "When", "To", "Action")
	events := documentedEvents(t)
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(m.operations())
		for moved := range m.moves {
			if !phases[moved] {
				t.Errorf("phase %v is not documented", moved)
			}
		}
		for moved := range m.stages {
			if !stages[moved] && !stages[move{"any", moved.to}] {
				t.Errorf("stage %v is not documented", moved)
			}
		}
		for report := range m.reported {
			row := events[report.Reason]
			if row == nil || !strings.Contains(row[1], string(report.Type)) {
				t.Errorf("event %s, %s, is not documented", report.Reason, report.Type)
			}
		}
	})
}

func documentedEvents(t *testing.T) map[agentapi.Reason][]string {
	rows := map[agentapi.Reason][]string{}
	for _, row := range documented(t, eventsPage, "Reason", "Type", "Meaning") {
		rows[agentapi.Reason(row[0])] = row
	}
	return rows
}

// lifecycleReason matches the reasons on this page.
var lifecycleReason = regexp.MustCompile(`^(VM|Owner|Launcher|Stop|WouldStop|Domain|Lease)`)

func TestDocumentedEvents(t *testing.T) {
	rows, reasons := documentedEvents(t), map[agentapi.Reason]bool{}
	for _, reason := range declaredReasons(t) {
		reasons[reason] = true
		if lifecycleReason.MatchString(string(reason)) && rows[reason] == nil {
			t.Errorf("%s is not in the table", reason)
		}
	}
	for reason := range rows {
		if !reasons[reason] {
			t.Errorf("%s is in the table, and no Event has this reason", reason)
		}
	}
}

func declaredReasons(t *testing.T) (reasons []agentapi.Reason) {
	t.Helper()
	path := filepath.Join("..", "..", "api", "agentapi", "event.go")
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		reasons = append(reasons, agentapi.Reason(text))
		return false
	})
	return reasons
}

// namedTest is a test of this package with a subtest, as a page names it.
var namedTest = regexp.MustCompile("`(Test\\w+)/([^`]+)`")

// TestDocumentedLessons: each test named as the answer to a failure exists.
func TestDocumentedLessons(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	lessons := namedTest.FindAllStringSubmatch(readPage(t, proofsPage), -1)
	if len(lessons) < 9 {
		t.Fatalf("%s names %d tests", proofsPage, len(lessons))
	}
	for _, lesson := range lessons {
		_, body, _ := strings.Cut(source.String(), "\nfunc "+lesson[1]+"(")
		body, _, _ = strings.Cut(body, "\n}\n")
		if name := strings.Join(strings.Fields(lesson[2]), " "); !strings.Contains(body,
			`{"`+name+`", `) {
			t.Errorf("%s names %s/%s, which does not exist", proofsPage, lesson[1], name)
		}
	}
}
