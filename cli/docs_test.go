package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/agent/doctor"
	"github.com/mooring-vm/mooring/agent/policycheck"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/cli/coexistence"
	"github.com/mooring-vm/mooring/cli/explain"
)

var (
	yamlBlock    = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	consoleBlock = regexp.MustCompile("(?ms)^```console\n\\$ mooring ((?:[^\n]*\\\\\n)*[^\n]*)\n" +
		"(.*?)^```$")
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

// TestCommandsInDocs runs the mooring commands of these pages in the repository's root, where the
// files of examples/ are.
func TestCommandsInDocs(t *testing.T) {
	for _, page := range []string{
		"get-started/existing-cluster.md", "how-to/memory-lock.md", "how-to/headroom.md",
	} {
		t.Run(page, func(t *testing.T) { runCommandsIn(t, page, 1, nil) })
	}
}

func TestPolicyCommandsInDocs(t *testing.T) {
	runCommandsIn(t, "reference/policy-check.md", 3, map[string]string{
		"policy.yaml": yamlBlock.FindStringSubmatch(readDoc(t, "docs", "reference",
			"policy.md"))[1],
		"pod.yaml": readDoc(t, "examples", "memory-lock.yaml"),
	})
}

// runCommandsIn runs the commands of a page, at least so many, and compares their output. With
// files it runs them in a folder with these files, otherwise in the repository's root.
// -update writes the output into the page.
func runCommandsIn(t *testing.T, page string, least int, files map[string]string) {
	t.Helper()
	doc := readDoc(t, "docs", page)
	path, err := filepath.Abs(docPath("docs", page))
	if err != nil {
		t.Fatal(err)
	}
	if files == nil {
		t.Chdir(docPath())
	} else {
		write(t, files)
	}
	blocks := consoleBlock.FindAllStringSubmatch(doc, -1)
	if len(blocks) < least {
		t.Fatalf("found %d commands", len(blocks))
	}
	for _, block := range blocks {
		got := runOn(t, "", strings.Fields(strings.ReplaceAll(block[1], "\\\n", " "))...)
		printed := got.out + got.errOut
		if *update {
			doc = strings.Replace(doc, block[0], "```console\n$ mooring "+block[1]+"\n"+
				printed+"```", 1)
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

var agentBlock = regexp.MustCompile("(?ms)^```console\n# mooring (.*?)\n(.*?)^```$")

// TestAgentCommandsInDocs compares the documented output of mooring ps and inspect with their
// output for launchers like in the demonstration. -update writes it into the page.
func TestAgentCommandsInDocs(t *testing.T) {
	const page = "get-started/throw-away-node.md"
	doc := readDoc(t, "docs", page)
	a := startAgent(t, documentedLaunchers()...)
	blocks := agentBlock.FindAllStringSubmatch(doc, -1)
	if len(blocks) < 2 {
		t.Fatalf("found %d commands", len(blocks))
	}
	for _, block := range blocks {
		got := run(t.Context(), t, a.socket, strings.Fields(block[1])...)
		if *update {
			doc = strings.Replace(doc, block[0], "```console\n# mooring "+block[1]+"\n"+
				got.out+"```", 1)
			continue
		}
		if diff := cmp.Diff(block[2], got.out+got.errOut); diff != "" {
			t.Errorf("# mooring %s (-documented +printed)\n%s", block[1], diff)
		}
	}
	if *update {
		if err := os.WriteFile(docPath("docs", page), []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// documentedLaunchers returns the pods vm-1 to vm-7 of the page: a VFIO launcher, an unlimited one,
// one with cgroup settings, two refused ones, and one with a VM in the node's libvirt.
func documentedLaunchers() []agentapi.Launcher {
	launcher := func(n int, age time.Duration, settings ...agentapi.Setting) agentapi.Launcher {
		l := running("vms", fmt.Sprintf("vm-%d", n), age, settings...)
		l.Pod.UID = fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
		l.Container.ID = "842d44034bae276f3ad634b62a66cafa0b3a2bb0320540c0521ef9c6bced28f4"
		l.Container.PID = 1073
		l.Phase, l.PhaseSince = agentapi.PhaseRegistered, l.Since
		return l
	}
	refused := func(n int, requested string) agentapi.Launcher {
		l := launcher(n, 41*time.Second, agentapi.Setting{Name: agentapi.MemlockSetting,
			Requested: requested, Status: agentapi.StatusRefused})
		l.State, l.Refusal, l.Container.PID, l.Phase = agentapi.StateRefused, "refused", 0, ""
		return l
	}
	lock := func(limit string, terms ...agentapi.Term) agentapi.Setting {
		return agentapi.Setting{
			Name: agentapi.MemlockSetting, Requested: limit, Allowed: "16Gi", Given: limit,
			Observed: limit, Status: agentapi.StatusApplied, Terms: terms,
		}
	}
	high := agentapi.Setting{Name: "memory.high", Requested: "1610612736", Given: "1610612736",
		Observed: "1610612736", Status: agentapi.StatusApplied}
	vm := launcher(7, 12*time.Second)
	vm.Phase, vm.VMs = agentapi.PhaseActive,
		[]agentapi.VM{process(1893, agentapi.VMRunning, 12*time.Second, "started")}
	return []agentapi.Launcher{
		launcher(1, 41*time.Second, lock("5Gi",
			agentapi.Term{Name: "guest memory", Bytes: 4 << 30},
			agentapi.Term{Name: "libvirt's allowance for device I/O", Bytes: 1 << 30})),
		launcher(2, 41*time.Second, lock("unlimited")),
		launcher(3, 41*time.Second, high),
		refused(4, "66Gi"),
		refused(5, ""),
		vm,
	}
}

// Every field of the JSON that scripts read is documented.
func TestJSONInDocs(t *testing.T) {
	for file, values := range map[string][]any{
		"reference/policy-check.md": {policycheck.Report{}, explain.Explanation{}},
		"reference/doctor.md":       {doctor.Report{}, fleetReport{}},
		"how-to/memory-lock.md":     {memlockJSON{}, ownLocksJSON{}},
	} {
		doc := readDoc(t, "docs", file)
		for _, v := range values {
			for _, name := range jsonNames(reflect.TypeOf(v)) {
				if !strings.Contains(doc, "`"+name+"`") && !strings.Contains(doc, "[]."+name+"`") {
					t.Errorf("docs/%s lacks %s of %T", file, name, v)
				}
			}
		}
	}
}

// jsonNames lists the names of a struct's fields, including nested structs.
func jsonNames(of reflect.Type) (names []string) {
	switch of.Kind() {
	case reflect.Slice:
		return jsonNames(of.Elem())
	case reflect.Struct:
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "seen" { // empty without a running container
				names = append(append(names, name), jsonNames(field.Type)...)
			}
		}
	}
	return names
}

// Every check of the doctor is described under its name.
func TestChecksInDocs(t *testing.T) {
	doc := readDoc(t, "docs", "reference", "doctor.md")
	all := doctor.Examine(t.Context(), doctor.Machine{Root: os.DirFS(t.TempDir())}).Findings
	all = append(all, coexistence.Examine(
		coexistence.Facts{Objects: make([]kubevirtv1.KubeVirt, 1)})...)
	for _, f := range all {
		if !strings.Contains(doc, "\n| `"+f.Check+"` |") {
			t.Errorf("docs/reference/doctor.md lacks %s", f.Check)
		}
	}
}

func TestExitCodesInDocs(t *testing.T) {
	doc, help := readDoc(t, "docs", "reference", "cli.md"),
		strings.Join(strings.Fields(exitCodes), " ")
	for code := ExitOK; code <= ExitRefused; code++ {
		if !strings.Contains(doc, fmt.Sprintf("\n| %d | ", code)) ||
			!strings.Contains(help, fmt.Sprintf(" %d ", code)) {
			t.Errorf("docs/reference/cli.md or the help lacks exit code %d", code)
		}
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
