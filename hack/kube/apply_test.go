package kube

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecode(t *testing.T) {
	tests := map[string]struct {
		manifest string
		want     []string
	}{
		"nothing":            {"", nil},
		"comments alone":     {"# nothing here\n---\n# nor here\n", nil},
		"one":                {"kind: A\n", []string{"A"}},
		"in their order":     {"kind: B\n---\nkind: A\n", []string{"B", "A"}},
		"comment in between": {"kind: A\n---\n# nothing here\n---\nkind: B\n", []string{"A", "B"}},
		"JSON":               {`{"kind": "A"}`, []string{"A"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			objects, err := Decode(strings.NewReader(tt.manifest))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range objects {
				got = append(got, o.GetKind())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeRefusesOtherText(t *testing.T) {
	for _, manifest := range []string{"{", "- a list", "kind: A\n---\n\t"} {
		if objects, err := Decode(strings.NewReader(manifest)); err == nil {
			t.Errorf("read %q as %v", manifest, objects)
		}
	}
}
