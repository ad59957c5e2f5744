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
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func readLifecycleDoc(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "explanation", "lifecycle.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documented returns the rows of the table that has these columns, without the
// marks of code.
func documented(t *testing.T, columns ...string) (rows [][]string) {
	t.Helper()
	_, table, ok := strings.Cut(readLifecycleDoc(t), "\n| "+strings.Join(columns, " | ")+" |\n")
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
			in = tie.Scanned{Scan: look}
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
		"a VM process starts":                          {podStarts},
		"the last VM process ends":                     {vmEnded},
		"the pod asks for the stop":                    {stopAsked},
		"the owner is proven gone":                     {ownerEnded},
		"the launcher hangs, and the policy says stop": {due{}},
		"a look finds nothing left":                    {nothingLeft{}},
		"a VM process starts, and the owner lives":     {podStarts},
		"a VM process starts, and the owner is gone":   {ownerEnded, nothingLeft{}, podStarts},
	}
	for _, row := range documented(t, "From", "What happens", "To") {
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
	cannotAsk := tie.ActionFailed{Action: tie.Shutdown{VM: nodeVM(7)}, Err: errors.New("refused")}
	ways := map[string][]any{
		"it has to end, and is node-level":                           {nodeStarts, stopAsked},
		"it has to end, its pod asks for it, and the launcher lives": {podStarts, stopAsked},
		"it has to end, and somebody in its pod takes requests":      {podStarts, takerCame, ownerEnded},
		"it has to end, and nobody can ask the guest":                {podStarts, ownerEnded},
		"the grace period is over":                                   {nodeStarts, stopAsked, due{}},
		"libvirt cannot ask the guest":                               {nodeStarts, stopAsked, cannotAsk},
		"it is of the pod, and nobody there is left to ask":          {podStarts, stopAsked, ownerEnded},
		"it is node-level, and its pod takes no request any more":    {nodeStarts, takerCame, ownerEnded, tie.StopHandlerDisconnected{}},
		"the term period is over":                                    {podStarts, ownerEnded, due{}},
		"it is still there":                                          {podStarts, ownerEnded, due{}, due{}},
		"the policy changes to observe mode":                         {podStarts, ownerEnded, tie.TermsChanged{Terms: observed()}},
	}
	deeds := map[string]string{
		"libvirt is asked to have the guest shut down": "shutdown(7)", "its pod is asked to": "askPod(7)", "SIGTERM": "terminate(7)",
		"SIGKILL": "kill(7)", "SIGKILL again": "kill(7)", "nothing: the pod asks the guest": "", "nothing more": "",
	}
	for _, row := range documented(t, "From", "When", "To", "What is done") {
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
	drawn, listed := map[move]bool{}, documentedMoves(t, "From", "What happens", "To")
	for _, m := range arrow.FindAllStringSubmatch(readLifecycleDoc(t), -1) {
		drawn[move{m[1], m[2]}] = true
	}
	if !reflect.DeepEqual(drawn, listed) {
		t.Errorf("the diagram shows %v, the table %v", drawn, listed)
	}
}

func documentedMoves(t *testing.T, columns ...string) map[move]bool {
	moves := map[move]bool{}
	for _, row := range documented(t, columns...) {
		moves[move{row[0], row[2]}] = true
	}
	return moves
}

// Nothing happens that the documentation does not name.
func TestUndocumentedProperty(t *testing.T) {
	phases := documentedMoves(t, "From", "What happens", "To")
	stages := documentedMoves(t, "From", "When", "To", "What is done")
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
			if row := events[told.Reason]; row == nil || row[1] != string(told.Type) && !strings.Contains(row[2], "As a "+string(told.Type)) {
				t.Errorf("event %s, %s, is not documented", told.Reason, told.Type)
			}
		}
	})
}

func documentedEvents(t *testing.T) map[agentapi.Reason][]string {
	rows := map[agentapi.Reason][]string{}
	for _, row := range documented(t, "Reason", "Type", "Meaning") {
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

func TestDocumentedPolicy(t *testing.T) {
	var fields, listed []string
	for field := range reflect.TypeFor[policy.Lifecycle]().Fields() {
		fields = append(fields, strings.ToLower(field.Name[:1])+field.Name[1:])
	}
	for _, row := range documented(t, "Field", "Default", "Meaning") {
		listed = append(listed, row[0])
	}
	slices.Sort(fields)
	slices.Sort(listed)
	if !slices.Equal(fields, listed) {
		t.Errorf("the table has %v, the policy %v", listed, fields)
	}
}

// The tests that are named as the answers to others' failures exist.
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
	for _, row := range documented(t, "Seen", "Lesson", "Test") {
		test, name, _ := strings.Cut(row[2], "/")
		_, body, _ := strings.Cut(source.String(), "\nfunc "+test+"(")
		body, _, _ = strings.Cut(body, "\n}\n")
		if !strings.Contains(body, `{"`+name+`", `) {
			t.Errorf("there is no test %s", row[2])
		}
	}
}
