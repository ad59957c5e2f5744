package kubevirt

import (
	"slices"
	"strings"
	"testing"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]string{
		"v1.7.0": "1.7.0", "1.7.0": "1.7.0", "1.7": "1.7.0", "v1.7": "1.7.0", "0.54.0": "0.54.0",
		"v0.59.2": "0.59.2",
		"1.9.12":  "1.9.12", "1.0": "1.0.0", "main": "main", "v1.7.0-rc.0": "1.7.0",
		"1.4.0-150600.5.15.1": "1.4.0", "1.7+k8s": "1.7.0",
	} {
		got, err := ParseVersion(text)
		if err != nil || got.String() != want {
			t.Errorf("%q: %v, %v, want %s", text, got, err, want)
		}
	}
}

func TestParseVersionErrors(t *testing.T) {
	for _, text := range []string{
		"", "1", "v1", "1.7.0.0", "1.7.", ".7", "1.7.x", "1.07", "01.7", "1.7.00", "V1.7",
		" 1.7", "1.7\n",
		"1.10", "v1.10.0", "2.0", "0.53.2", "0.60", "0.60.0", "0.0", "latest", "Main", "main ",
		"-1.7", "1.7.12345", "1.-7",
	} {
		got, err := ParseVersion(text)
		if err == nil || got != (Version{}) || !strings.Contains(err.Error(),
			"0.54 to 0.59 or 1.0 to 1.9") || !strings.Contains(err.Error(), "main") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// The last row up to the version counts.
func TestReleaseOf(t *testing.T) {
	for text, row := range map[string]string{
		"0.54.0": "0.54.0", "0.54.7": "0.54.0", "0.55.2": "0.55.0", "0.56.1": "0.55.0",
		"0.58.0": "0.57.0", "0.58.1": "0.58.1",
		"0.58.9": "0.58.2", "0.59.0": "0.59.0", "0.59.2": "0.59.1", "1.0.1": "0.59.1",
		"1.2.2": "1.1.0", "1.4.0": "1.3.0",
		"1.4.1": "1.4.1", "1.5": "1.5.0", "1.5.2": "1.5.1", "1.5.3": "1.5.3", "1.6.3": "1.6.0",
		"1.6.6": "1.6.4", "1.7.4": "1.7.0",
		"1.8": "1.8.0", "1.9.0": "1.8.0", "main": "main",
	} {
		version, err := ParseVersion(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := releaseOf(version); err != nil || got.from.String() != row {
			t.Errorf("%s: row %s, %v, want %s", text, got.from, err, row)
		}
	}
	if _, err := releaseOf(Version{}); err == nil ||
		!strings.Contains(err.Error(), "0.54 to 0.59") {
		t.Errorf("no version: %v", err)
	}
}

func TestTableIsInOrder(t *testing.T) {
	if !slices.IsSortedFunc(releases[:], func(a, b release) int { return a.from.Compare(b.from) }) {
		t.Error("the rows are not in the order of their versions")
	}
	if first, last := releases[0].from.String(), releases[len(releases)-1].from.String(); first !=
		"0.54.0" || last != "main" {
		t.Errorf("the table begins with %s and ends with %s: have wantVersion say so", first, last)
	}
	for i, r := range releases {
		if i > 0 && r.from.Compare(releases[i-1].from) == 0 {
			t.Errorf("%s has two rows", r.from)
		}
		if r.has(exclusiveInRatio) && r.has(exclusiveAfterRatio) {
			t.Errorf("%s counts dedicated CPUs twice", r.from)
		}
	}
}

func TestCompare(t *testing.T) {
	var all []Version
	for _, text := range []string{"0.54.0", "0.59.2", "1.0.0", "1.5.2", "1.5.10", "1.9.0", "main"} {
		version, err := ParseVersion(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, version)
	}
	for i, a := range all {
		for j, b := range all {
			if got := a.Compare(b); got > 0 != (i > j) || got < 0 != (i < j) {
				t.Errorf("%s compared to %s: %d", a, b, got)
			}
		}
	}
}

func FuzzParseVersion(f *testing.F) {
	for _, seed := range []string{"v1.7.0", "1.7", "0.54.0", "main", "1.10", "1.7.0-rc.1", "",
		"1.9.9999", "v"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ParseVersion(text)
		if err != nil {
			if v != (Version{}) {
				t.Errorf("%q: %v with %v", text, v, err)
			}
			return
		}
		if again, err := ParseVersion(v.String()); err != nil || again != v {
			t.Errorf("%q is %s, which is read as %v, %v", text, v, again, err)
		}
		if _, total, err := Overhead(VM{}, v, Ratio{}); err != nil || total < 200*mi {
			t.Errorf("%q: overhead %d, %v", text, total, err)
		}
	})
}
