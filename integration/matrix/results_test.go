package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

// TestMergeKeepsOtherCells runs one cell. The other cells' results stay.
func TestMergeKeepsOtherCells(t *testing.T) {
	r := results{file: filepath.Join(t.TempDir(), "compatibility.json")}
	at := func(cell, handler, date string) coreRun { return coreRun{Cell: cell, Handler: handler, Date: date} }
	r.merge([]coreRun{at("trixie/2.4.2", "runc", "1"), at("trixie/2.4.2", "crun", "1")})
	r.merge([]coreRun{at("trixie/distribution", "runc", "2")}) // comes first among the cells
	r.merge([]coreRun{at("trixie/2.4.2", "crun", "3")})
	if err := r.save(); err != nil {
		t.Fatal(err)
	}
	again := results{file: r.file}
	if err := again.load(); err != nil {
		t.Fatal(err)
	}
	want := []coreRun{at("trixie/distribution", "runc", "2"), at("trixie/2.4.2", "runc", "1"), at("trixie/2.4.2", "crun", "3")}
	if diff := cmp.Diff(want, again.runs, cmp.AllowUnexported(coreRun{})); diff != "" {
		t.Errorf("got (+), want (-):\n%s", diff)
	}
}

// TestMergeOfSomeTests runs some tests. The other claims stay.
func TestMergeOfSomeTests(t *testing.T) {
	at := func(date string, partial bool, claims ...claim) coreRun {
		return coreRun{Cell: "trixie/2.4.2", Handler: "runc", Date: date, Claims: claims, partial: partial}
	}
	var r results
	r.merge([]coreRun{at("1", false, claim{Claim: "a", Result: "pass"}, claim{Claim: "b", Result: "fail"})})
	r.merge([]coreRun{at("2", true, claim{Claim: "b", Result: "pass"}, claim{Claim: "c", Result: "pass"})})
	want := at("2", false, claim{Claim: "a", Result: "pass"}, claim{Claim: "b", Result: "pass"}, claim{Claim: "c", Result: "pass"})
	if diff := cmp.Diff([]coreRun{want}, r.runs, cmp.AllowUnexported(coreRun{})); diff != "" {
		t.Errorf("got (+), want (-):\n%s", diff)
	}
}

func TestLoadOfNothingAndOfNonsense(t *testing.T) {
	r := results{file: filepath.Join(t.TempDir(), "compatibility.json")}
	if err := r.load(); err != nil || r.runs != nil {
		t.Errorf("a file that is not there: got %v, %v", r.runs, err)
	}
	if err := os.WriteFile(r.file, []byte(`[{"cel": "x"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.load(); err == nil || !strings.Contains(err.Error(), r.file) || !strings.Contains(err.Error(), "cel") {
		t.Errorf("got %v, want an error that names file and field", err)
	}
}

// TestCells checks that hack/node accepts each cell.
func TestCells(t *testing.T) {
	cells, err := selection{}.cells()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		if err := (image.Spec{Suite: c.Suite, Containerd: c.Containerd}).Validate(); err != nil || len(c.Handlers) == 0 {
			t.Errorf("cell %s with %v: %v", c.name(), c.Handlers, err)
		}
	}
}

func TestSelection(t *testing.T) {
	one, err := selection{[]string{"forky/2.4.2"}, "crun", "Hung"}.cells()
	want := []cell{{Suite: "forky", Containerd: "2.4.2", Handlers: []string{"crun"}, tests: "Hung"}}
	if diff := cmp.Diff(want, one, cmp.AllowUnexported(cell{})); err != nil || diff != "" {
		t.Errorf("%v; got (+), want (-):\n%s", err, diff)
	}
	if _, err := (selection{names: []string{"potato/2.4.2"}}).cells(); err == nil || !strings.Contains(err.Error(), "trixie/2.4.2") {
		t.Errorf("got %v, want an error that says which cells there are", err)
	}
	if _, err := (selection{handler: "kata"}).cells(); err == nil || !strings.Contains(err.Error(), "runc, crun") {
		t.Errorf("got %v, want an error that says which handlers there are", err)
	}
}
