package api

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestInjection(t *testing.T) {
	for value, want := range map[string]Injection{
		"true": {Sidecar: true}, "false": {}, "follow-limits": {Sidecar: true, FollowLimits: true},
	} {
		got, ok, err := InjectSidecar(map[string]string{InjectSidecarKey: value})
		if got != want || !ok || err != nil || got.String() != value {
			t.Errorf("%s: got %+v, %v, %v", value, got, ok, err)
		}
	}
	if _, ok, err := InjectSidecar(nil); ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
}

// Nodes check the keys for webhooks, and do not act on them.
func TestWebhookKeys(t *testing.T) {
	good := map[string]string{
		InjectSidecarKey: "follow-limits", InjectPreStopKey + "/pod": "true", AddedKey: "1Gi",
		RenderedKey: `{"requests":{"cpu":"100m","memory":"2Gi"},"limits":{}}`,
	}
	if r, err := Parse(good, "compute"); err != nil || !cmp.Equal(r, Request{}) {
		t.Errorf("got %+v, %v", r, err)
	}
	for key, values := range map[string][]string{
		InjectSidecarKey: {"", "yes", "True"},
		InjectPreStopKey: {"", "follow-limits"},
		AddedKey:         {"", "-1", "unlimited", "1e3"},
		RenderedKey: {"", "{", "[]", `{"request":{}}`,
			`{"limits":{"pods":"1"}}`, `{"limits":{"cpu":"1"}}`, `{"limits":{"memory":"-1"}}`,
			"{}{}", "{} x"},
		RenderedKey + "/container.compute":      {"{}"},
		InjectSidecarKey + "/container.compute": {"true"},
	} {
		for _, value := range values {
			_, err := Parse(map[string]string{key: value}, "compute")
			if err == nil || !strings.Contains(err.Error(), key) {
				t.Errorf("%s: %q: got %v", key, value, err)
			}
		}
	}
}

func TestInjectErrors(t *testing.T) {
	wrong := map[string]string{InjectSidecarKey: "yes", InjectPreStopKey: "yes", AddedKey: "x",
		RenderedKey: "x"}
	for key, read := range map[string]func() (bool, error){
		InjectSidecarKey: func() (bool, error) {
			_, ok, err := InjectSidecar(wrong)
			return ok, err
		},
		InjectPreStopKey: func() (bool, error) {
			_, ok, err := InjectPreStop(wrong)
			return ok, err
		},
		AddedKey: func() (bool, error) { _, ok, err := Added(wrong); return ok, err },
		RenderedKey: func() (bool, error) {
			_, ok, err := RenderedResources(wrong)
			return ok, err
		},
	} {
		if ok, err := read(); ok || err == nil ||
			!strings.Contains(err.Error(), "annotation "+key+": ") {
			t.Errorf("%s: got %v, %v", key, ok, err)
		}
	}
}

func TestRenderedReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(name string, most int64) *int64 {
			if rapid.Bool().Draw(t, "has "+name) {
				return new(rapid.Int64Range(0, most).Draw(t, name))
			}
			return nil
		}
		amounts := func() Amounts {
			return Amounts{CPU: amount("cpu", MaxMilliCPU), Memory: amount("memory", 1<<62)}
		}
		want := Rendered{Requests: amounts(), Limits: amounts()}
		if got, err := ParseRendered(want.String()); err != nil || !cmp.Equal(want, got) {
			t.Fatalf("%s: got %+v, %v", want, got, err)
		}
	})
}

func FuzzParseRendered(f *testing.F) {
	f.Add(`{"requests":{"cpu":"100m","memory":"2Gi"},"limits":{}}`)
	f.Add(`{"requests":{"cpu":"1","memory":2}}`)
	f.Add("{}\x00")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRendered(text)
		if err != nil {
			checkError(t, err)
			return
		}
		if again, err := ParseRendered(r.String()); err != nil || !cmp.Equal(r, again) {
			t.Errorf("%q: %s reads as %+v, %v", text, r, again, err)
		}
	})
}
