package podapi_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api/podapi"
)

func TestDecode(t *testing.T) {
	for body, want := range map[string]string{ // of the error; empty: none
		`{"atLeast": 4096}`:                "",
		`{"atMost": "unlimited"}`:          "",
		`{"atLeast": 9223372036854775807}`: "",
		`{}`:                               "want one of atLeast and atMost",
		`{"atLeast": 1, "atMost": 1}`:      "want one of atLeast and atMost",
		`{"atLeast": -1}`:                  "-1: want a whole number of bytes",
		`{"atLeast": 9223372036854775808}`: "want a whole number of bytes",
		`{"atLeast": 1e30}`:                "1e30: want a whole number",
		`{"atLeast": 0.5}`:                 "0.5: want a whole number",
		`{"atLeast": "4Gi"}`:               "want a whole number",
		`{"atLeast": null}`:                "want one of",
		`{"atLeast": 1, "pod": "other"}`:   `unknown field "pod"`,
		`{"atLeast": 1} {"atLeast": 2}`:    "want one JSON object",
		`[]`:                               "want one JSON object",
		``:                                 "want one JSON object",
		`{"atLeast": 1`:                    "want one JSON object",
		strings.Repeat("[", 10000):         "want one JSON object",
		`{"atLeast": ` + strings.Repeat("9", 4000) + `}`: "want a whole number",
	} {
		_, err := podapi.Decode[podapi.Lock](strings.NewReader(body))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: error %v, want one with %q", body, err, want)
		}
	}
}

func TestCheck(t *testing.T) {
	amount := func(n podapi.Amount) *podapi.Amount { return &n }
	line := strings.Repeat("x", podapi.MaxLine)
	for name, c := range map[string]struct {
		value interface{ Check() error }
		want  string
	}{
		"need":    {podapi.MemoryRequirement{Bytes: amount(0)}, ""},
		"no need": {podapi.MemoryRequirement{}, "bytes: absent"},
		"endless need": {podapi.MemoryRequirement{Bytes: amount(podapi.Unlimited)},
			"bytes: unlimited: want a number"},
		"hold":          {podapi.Hold{Seconds: 3600}, ""},
		"no hold":       {podapi.Hold{}, "seconds: 0: want 1 to 3600"},
		"negative hold": {podapi.Hold{Seconds: -1}, "seconds: -1: want 1 to 3600"},
		"endless hold":  {podapi.Hold{Seconds: 3601}, "seconds: 3601: want 1 to 3600"},
		"lease":         {podapi.Lease{Seconds: 600, Reason: "migration"}, ""},
		"no lease":      {podapi.Lease{Reason: "migration"}, "seconds: 0: want 1 to 600"},
		"negative lease": {podapi.Lease{Seconds: -1, Reason: "migration"},
			"seconds: -1: want 1 to 600"},
		"endless lease": {podapi.Lease{Seconds: 601, Reason: "migration"},
			"seconds: 601: want 1 to 600"},
		"no reason": {podapi.Lease{Seconds: 1, Reason: " "}, `reason: " ": want one line`},
		"a long reason": {podapi.Lease{Seconds: 1, Reason: line},
			"reason: 512 bytes: want at most 200"},
		"a forged reason": {podapi.Lease{Seconds: 1, Reason: "a\nb"}, "printable"},
		"report": {podapi.Report{State: podapi.StateDone, Plan: []string{line},
			Steps: []podapi.Step{{Description: "a"}}}, ""},
		"no state":  {podapi.Report{}, `state: "": want one of Idle`},
		"odd state": {podapi.Report{State: "x"}, `state: "x": want one of`},
		"dry run":   {podapi.Report{State: podapi.StateFailed, DryRun: true}, ""},
		"no dry run": {podapi.Report{State: podapi.StatePlanned},
			"state: Planned: want dryRun with it"},
		"done of none": {podapi.Report{State: podapi.StateDone, DryRun: true},
			"state: Done: want Planned, Refused or Failed for a dry run"},
		"long line": {podapi.Report{State: podapi.StateDone, Error: line + "x"},
			"at most 512 bytes"},
		"long list": {podapi.Report{State: podapi.StateDone,
			Plan: make([]string, podapi.MaxLines+1)}, "plan: 65 lines: want at most 64"},
		"many notes": {podapi.Report{State: podapi.StateDone,
			Notes: make([]string, podapi.MaxLines+1)}, "notes: 65 lines"},
		"many steps": {podapi.Report{State: podapi.StateDone,
			Steps: make([]podapi.Step, podapi.MaxLines+1)}, "steps: 65 of them"},
		"escape sequences": {podapi.Report{State: podapi.StateDone,
			Steps: []podapi.Step{{Description: "\x1b[2J"}}}, "printable"},
		"forged rows": {podapi.Report{State: podapi.StateDone,
			Actual: &podapi.Actual{Quota: "a\nb"}}, "printable"},
		"no text": {podapi.Report{State: podapi.StateDone, Notes: []string{"\xff"}}, "printable"},
	} {
		err := c.value.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// A decoded value passes Check, and its JSON gives the same value again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"atLeast":4096}`, `{"atMost":"unlimited"}`, `{"bytes":0}`, `{"seconds":60}`,
		`{"seconds":600,"reason":"migration"}`, `{"seconds":601,"reason":"migration"}`,
		`{"seconds":1,"reason":"\n"}`,
		`{"generation":1,"state":"Done","plan":["a"],"steps":[{"what":"a","started":"2026-01-02T03:04:05Z","seconds":0.5}]}`,
		`{"atLeast":-1}`, `{"atLeast":1}{}`, "\x00", `{"state":"Done","error":"\u001b"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		again[podapi.Lock](t, data)
		again[podapi.MemoryRequirement](t, data)
		again[podapi.Hold](t, data)
		again[podapi.Lease](t, data)
		again[podapi.Report](t, data)
	})
}

func again[T interface{ Check() error }](t *testing.T, data []byte) {
	first, err := podapi.Decode[T](bytes.NewReader(data))
	if err != nil {
		return
	}
	if err := first.Check(); err != nil {
		t.Fatalf("%T: %v", first, err)
	}
	text, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	second, err := podapi.Decode[T](bytes.NewReader(text))
	if diff := cmp.Diff(first, second); diff != "" || err != nil {
		t.Fatalf("%s: %v (-first +second)\n%s", text, err, diff)
	}
}
