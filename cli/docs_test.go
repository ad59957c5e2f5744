package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/agent/doctor"
	"github.com/mooring-vm/mooring/agent/policycheck"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/cli/explain"
)

var (
	xmlBlock     = regexp.MustCompile("(?ms)^```xml\n(.*?)^```$")
	yamlBlock    = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	consoleBlock = regexp.MustCompile("(?ms)^```console\n\\$ mooring (.*?)\n(.*?)^```$")
)

func docPath(elements ...string) string {
	return filepath.Join(append([]string{".."}, elements...)...)
}

func readDoc(t *testing.T, elements ...string) string {
	t.Helper()
	text, err := os.ReadFile(docPath(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The commands that the documentation shows print what it shows, for the files that
// it shows.
func TestPolicyCommandsInDocs(t *testing.T) {
	doc, readme := readDoc(t, "docs", "reference", "policy.md"), readDoc(t, "README.md")
	runCommandsIn(t, "reference/policy.md", 3, map[string]string{
		"policy.yaml": yamlBlock.FindStringSubmatch(doc)[1],
		"pod.yaml":    yamlBlock.FindStringSubmatch(readme)[1],
	})
}

func TestMemlockCommandsInDocs(t *testing.T) {
	doc := readDoc(t, "docs", "how-to", "memory-lock.md")
	runCommandsIn(t, "how-to/memory-lock.md", 3, map[string]string{
		"two-vdpa.xml": xmlBlock.FindStringSubmatch(doc)[1],
		"gpu.yaml":     yamlBlock.FindStringSubmatch(doc)[1],
	})
}

// runCommandsIn runs the commands of a page, of which there are at least so many, with
// those files around. -update writes what they print into the page.
func runCommandsIn(t *testing.T, page string, least int, files map[string]string) {
	t.Helper()
	doc := readDoc(t, "docs", page)
	path, err := filepath.Abs(docPath("docs", page))
	if err != nil {
		t.Fatal(err)
	}
	write(t, files)
	blocks := consoleBlock.FindAllStringSubmatch(doc, -1)
	if len(blocks) < least {
		t.Fatalf("found %d commands", len(blocks))
	}
	for _, block := range blocks {
		got := runOn(t, "", strings.Fields(block[1])...)
		printed := got.out + got.errOut
		if *update {
			doc = strings.Replace(doc, block[0], "```console\n$ mooring "+block[1]+"\n"+printed+"```", 1)
			continue
		}
		if diff := cmp.Diff(block[2], printed); diff != "" {
			t.Errorf("$ mooring %s (-documented +printed)\n%s", block[1], diff)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Every field of the JSON that scripts read is documented.
func TestJSONInDocs(t *testing.T) {
	for file, values := range map[string][]any{
		"reference/policy.md":   {policycheck.Report{}, explain.Explanation{}},
		"reference/doctor.md":   {doctor.Report{}},
		"how-to/memory-lock.md": {memlockJSON{}},
	} {
		doc := readDoc(t, "docs", file)
		for _, v := range values {
			for _, name := range jsonNames(reflect.TypeOf(v)) {
				if !strings.Contains(doc, "`"+name+"`") && !strings.Contains(doc, "[]."+name+"`") {
					t.Errorf("docs/%s does not tell of %s of %T", file, name, v)
				}
			}
		}
	}
}

// jsonNames lists the names of a struct's fields, and of those in its fields.
func jsonNames(of reflect.Type) (names []string) {
	switch of.Kind() {
	case reflect.Slice:
		return jsonNames(of.Elem())
	case reflect.Struct:
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "seen" { // nothing is, before it runs
				names = append(append(names, name), jsonNames(field.Type)...)
			}
		}
	}
	return names
}

// Every check of the doctor is described under its name.
func TestChecksInDocs(t *testing.T) {
	doc := readDoc(t, "docs", "reference", "doctor.md")
	for _, f := range doctor.Examine(t.Context(), doctor.Machine{Root: os.DirFS(t.TempDir())}).Findings {
		if !strings.Contains(doc, "\n| `"+f.Check+"` |") {
			t.Errorf("docs/reference/doctor.md does not tell of %s", f.Check)
		}
	}
}

// The exit codes are documented, and in the help.
func TestExitCodesInDocs(t *testing.T) {
	if !strings.Contains(readDoc(t, "docs", "how-to", "troubleshoot.md"), "\n| 6 | ") || !strings.Contains(exitCodes, " 6 ") {
		t.Error("exit code 6 is not documented")
	}
}

func TestStatusesInDocs(t *testing.T) {
	doc := readDoc(t, "docs", "reference", "events.md")
	statuses := []string{string(agentapi.StatusRefused), "would-refuse"}
	for _, status := range bySeverity {
		statuses = append(statuses, string(status))
	}
	for _, status := range statuses {
		if !strings.Contains(doc, "\n| `"+status+"` | ") {
			t.Errorf("docs/reference/events.md lacks the status %s", status)
		}
	}
}
