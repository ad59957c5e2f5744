package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// TestFormats writes the same value in each format for programs.
func TestFormats(t *testing.T) {
	file := filepath.Join(t.TempDir(), "template")
	if err := os.WriteFile(file, []byte("{.name}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	value := map[string]any{"name": "a\x1b", "list": []int{1, 2}}
	for f, want := range map[format]string{
		"json":                          "{\n  \"list\": [\n    1,\n    2\n  ],\n  \"name\": \"a\\u001b\"\n}\n",
		"yaml":                          "list:\n- 1\n- 2\nname: \"a\\e\"\n",
		"name":                          "thing/a?\n",
		"jsonpath={.name}":              "a?\n",
		"jsonpath=.list[1]":             "2\n",
		"jsonpath={.none}":              "\n",
		"jsonpath={.name}{'\\n'}":       "a?\n",
		"jsonpath-as-json={.list[*]}":   "[\n    1,\n    2\n]\n",
		format("jsonpath-file=" + file): "a?\n",
	} {
		var out bytes.Buffer
		output := outputFlags{format: &f}
		if err := output.writeData(&out, value, []string{"thing/a\x1b"}); err != nil ||
			out.String() != want {
			t.Errorf("-o %s: %v, %q, want %q", f, err, out.String(), want)
		}
	}
}

// TestFaultyTemplates expects a short reason, and wrong usage before any output.
func TestFaultyTemplates(t *testing.T) {
	for f, want := range map[format]string{
		"jsonpath={":           "unclosed action",
		"jsonpath=":            "no template given",
		"jsonpath-file=/none":  "no such file",
		"jsonpath={.list[9]}":  "array index out of bounds",
		"jsonpath-as-json={.[": "unterminated array",
	} {
		var out bytes.Buffer
		output := outputFlags{format: &f}
		err := output.writeData(&out, map[string]any{"list": []int{1}}, nil)
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 200 ||
			out.Len() > 0 {
			t.Errorf("-o %s: %v, want %q; output %q", f, err, want, out.String())
		}
	}
}

// TestFormatsOfEvents expects a document for each event.
func TestFormatsOfEvents(t *testing.T) {
	event := agentapi.Event{Time: now, Type: "Warning", Reason: "MemlockRefused",
		Message: "too large"}
	for f, want := range map[format]string{
		"yaml":               "---\n",
		"json":               `"reason":"MemlockRefused"`,
		"jsonpath={.reason}": "MemlockRefused\n",
	} {
		var out, errOut bytes.Buffer
		if err := testProgram(&out, &errOut).printEvent(event, f); err != nil {
			t.Error(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("-o %s: %q, want %q", f, out.String(), want)
		}
	}
	for _, command := range []string{"events", "watch"} {
		if got := runOn(t, "", command, "-o", "yaml"); got.code == ExitUsage {
			t.Errorf("%s -o yaml: %s", command, got.errOut)
		}
	}
}

// TestFormatsOfQuotaStatus expects the formats of the other lists.
func TestFormatsOfQuotaStatus(t *testing.T) {
	s := startQuotaServer(t)
	for args, want := range map[string]string{
		"-o yaml": "namespace: vms\n",
		"-o name": "resourcequota/",
		"-o jsonpath={.quotas[0].resources[0].name}": "limits.cpu\n",
		"-o wide": "DESIRED  IN FORCE\n",
	} {
		if got := quotaStatusOf(t, s, strings.Fields(args)...); got.code != ExitOK ||
			!strings.Contains(got.out, want) {
			t.Errorf("%s: %+v, want %q", args, got, want)
		}
	}
	if got := quotaStatusOf(t, s, "--no-headers"); got.code != ExitOK ||
		strings.Contains(got.out, "RESERVED") || strings.Contains(got.out, "MIGRATION ") {
		t.Errorf("--no-headers: %+v", got)
	}
}

func TestWideTop(t *testing.T) {
	used := []usageJSON{{Pod: agentapi.PodRef{Name: "vm"}, Container: "compute", VMs: 2}}
	row := topRows(used, true, true)[1]
	if got := strings.Join(row[len(row)-3:], " "); got != "compute 2 " {
		t.Errorf("%q", row)
	}
}
