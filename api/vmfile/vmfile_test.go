package vmfile_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api/vmfile"
)

var ended = vmfile.VM{
	State: vmfile.Ended, Domain: "vm-3", PID: 4711, Start: 81234, Reason: vmfile.Shutdown,
}

// A launcher keeps its program while the agent is upgraded, and the reverse after a step back.
func TestVersions(t *testing.T) {
	const content = `"state":"ended","domain":"vm-3","pid":4711,"start":81234,"reason":"shutdown"}`
	for text, want := range map[string]string{
		"{" + content:                             "", // an earlier agent
		`{"version":1,` + content:                 "",
		`{"version":1,"later":{"a":1},` + content: "",
		`{"version":2,` + content:                 "version 2 of the file is unknown",
		`{"version":-1,` + content:                "version -1",
		`{"version":"1",` + content:               "version",
		"{":                                       "unexpected end",
	} {
		got, err := vmfile.Decode([]byte(text))
		switch {
		case want == "" && (err != nil || got != ended):
			t.Errorf("%s: %+v, %v", text, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || got != vmfile.VM{}):
			t.Errorf("%s: %+v, %v, want an error with %q", text, got, err, want)
		}
	}
}

// An earlier launcher decodes the file into VM, and ignores further fields.
func TestEarlierLauncherReadsThisVersion(t *testing.T) {
	data, err := vmfile.Encode(ended)
	if err != nil {
		t.Fatal(err)
	}
	var got vmfile.VM
	if err := json.Unmarshal(data, &got); err != nil || got != ended {
		t.Errorf("%s: %+v, %v", data, got, err)
	}
	if !strings.HasPrefix(string(data), `{"version":1,`) {
		t.Errorf("%s: want a version", data)
	}
}
