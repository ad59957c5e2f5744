package tie_test

import (
	"errors"
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

// documented returns the rows of the page's table with these columns, without the marks of code.
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
		rows = append(rows, strings.Split(strings.Trim(strings.ReplaceAll(line, "`", ""), "| \n"), " | "))
	}
	if len(rows) == 0 {
		t.Fatalf("the table of %v is empty", columns)
	}
	return rows
}

// walk steps a tie through all that happens, a second apart, and returns what was
// done last.
func walk(t *testing.T, terms tie.Terms, happens ...any) (tie.Tie, []tie.Action) {
	t.Helper()
	current, look, now := newTie(terms), uint64(0), booted
	var actions []tie.Action
	for _, in := range happens {
		now = now.Add(1e9)
		switch in.(type) {
		case nothingLeft:
			in = tie.Scanned{ID: look}
		case due:
			at, ok := current.Due()
			if !ok {
				t.Fatalf("nothing is due: %+v", current)
			}
			now, in = max(now, at), ticked
		}
		current, actions = tie.Step(current, now, in.(tie.Input))
		look = lastLook(actions, look)
	}
	return current, actions
}

// Each transition of a launcher that the documentation names happens.
func TestDocumentedPhases(t *testing.T) {
	ways := map[string][]any{
		"Registered": {ownerStarted, beaten},
		"Active":     {ownerStarted, beaten, podStarts},
		"Draining":   {ownerStarted, beaten, podStarts, stopAsked, vmEnded},
		"Done":       {ownerStarted, beaten, stopAsked, nothingLeft{}},
	}
	happens := map[string][]any{
		"a VM process starts":                           {podStarts},
		"the last VM process ends":                      {vmEnded},
		"the pod requests the stop":                     {stopAsked},
		"the launcher is proven gone":                   {ownerEnded},
		"the launcher hangs, and the policy says stop":  {due{}},
		"a scan finds no VM process":                    {nothingLeft{}},
		"a VM process starts, and the launcher lives":   {podStarts},
		"a VM process starts, and the launcher is gone": {ownerEnded, nothingLeft{}, podStarts},
	}
	for _, row := range documented(t, lifecyclePage, "From", "Event", "To") {
		way, what := ways[row[0]], happens[row[1]]
		if way == nil || what == nil {
			t.Errorf("%v: this test does not know how", row)
			continue
		}
		if tie, _ := walk(t, enforced(), way...); string(tie.Phase) != row[0] {
			t.Errorf("%v begins in %s", row, tie.Phase)
		}
		if tie, _ := walk(t, enforced(), slices.Concat(way, what)...); string(tie.Phase) != row[2] {
			t.Errorf("%v ends in %s", row, tie.Phase)
		}
	}
}

// Each transition of a VM process that the documentation names happens, and does
// what it says.
func TestDocumentedStages(t *testing.T) {
	cannotAsk := tie.ActionFailed{Action: tie.ShutdownByLibvirt{VM: nodeVM(7)}, Err: errors.New("refused")}
	ways := map[string][]any{
		"due; node-level": {nodeStarts, stopAsked},
		"due; requested by the pod, and the launcher lives": {podStarts, stopAsked},
		"due; the pod has a stop handler":                   {podStarts, takerCame, ownerEnded},
		"due; no client can ask the guest":                  {podStarts, ownerEnded},
		"the grace period is over":                          {nodeStarts, stopAsked, due{}},
		"libvirt cannot ask the guest":                      {nodeStarts, stopAsked, cannotAsk},
		"of the pod; no client is left to ask the guest":    {podStarts, stopAsked, ownerEnded},
		"node-level; the stop handler has left":             {nodeStarts, takerCame, ownerEnded, tie.StopHandlerDisconnected{}},
		"the term period is over":                           {podStarts, ownerEnded, due{}},
		"the process still runs":                            {podStarts, ownerEnded, due{}, due{}},
		"the policy changes to observe mode":                {podStarts, ownerEnded, tie.TermsChanged{Terms: observed()}},
	}
	deeds := map[string]string{
		"shutdown request to libvirt": "shutdown(7)", "stop request to the pod": "askPod(7)", "SIGTERM": "terminate(7)",
		"SIGKILL": "kill(7)", "SIGKILL again": "kill(7)", "none": "",
	}
	for _, row := range documented(t, lifecyclePage, "From", "When", "To", "Action") {
		way := ways[row[1]]
		deed, known := deeds[row[3]]
		if way == nil || !known {
			t.Errorf("%v: this test does not know how", row)
			continue
		}
		before, _ := walk(t, noWatchdog(), way[:len(way)-1]...)
		after, actions := walk(t, noWatchdog(), way...)
		if from := stageNames[before.VMs[0].Stage]; row[0] != "any" && from != row[0] {
			t.Errorf("%v begins in %s", row, from)
		}
		if to := stageNames[after.VMs[0].Stage]; to != row[2] {
			t.Errorf("%v ends in %s", row, to)
		}
		if did := showDeeds(actions); did != deed {
			t.Errorf("%v does %q", row, did)
		}
	}
}

var arrow = regexp.MustCompile(`(?m)^ +(\w+) --> (\w+)$`)

// The diagram shows the transitions of the table.
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

// Nothing happens that the documentation does not name.
func TestUndocumentedProperty(t *testing.T) {
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
		for told := range m.told {
			if row := events[told.Reason]; row == nil || !strings.Contains(row[1], string(told.Type)) {
				t.Errorf("event %s, %s, is not documented", told.Reason, told.Type)
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

// lifecycleReason tells the reasons of this page from those of others.
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
			t.Errorf("%s is in the table, and is the reason of no event", reason)
		}
	}
}

func declaredReasons(t *testing.T) (reasons []agentapi.Reason) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "api", "agentapi", "event.go"), nil, 0)
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

// TestDocumentedFailures: each test named as the answer to a failure exists.
func TestDocumentedFailures(t *testing.T) {
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
		if name := strings.Join(strings.Fields(lesson[2]), " "); !strings.Contains(body, `{"`+name+`", `) {
			t.Errorf("%s names %s/%s, which does not exist", proofsPage, lesson[1], name)
		}
	}
}
