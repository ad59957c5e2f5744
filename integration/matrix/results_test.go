package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

func TestMergeKeepsOtherCells(t *testing.T) {
	r := results{file: filepath.Join(t.TempDir(), "compatibility.json")}
	at := func(cell, handler, date string) coreRun {
		return coreRun{Cell: cell, Handler: handler, Date: date}
	}
	r.merge([]coreRun{at("trixie/2.4.2", "runc", "1"), at("trixie/2.4.2", "crun", "1")})
	r.merge([]coreRun{at("trixie/distribution", "runc", "2")}) // comes first among the cells
	r.merge([]coreRun{at("trixie/2.4.2", "crun", "3")})
	if err := r.save(); err != nil {
		t.Fatal(err)
	}
	loaded := results{file: r.file}
	if err := loaded.load(); err != nil {
		t.Fatal(err)
	}
	want := []coreRun{
		at("trixie/distribution", "runc", "2"),
		at("trixie/2.4.2", "runc", "1"), at("trixie/2.4.2", "crun", "3"),
	}
	if diff := cmp.Diff(want, loaded.runs, cmp.AllowUnexported(coreRun{})); diff != "" {
		t.Errorf("got (+), want (-):\n%s", diff)
	}
}

func TestMergeOfPartialRunKeepsOtherClaims(t *testing.T) {
	at := func(date string, partial bool, claims ...claim) coreRun {
		return coreRun{Cell: "trixie/2.4.2", Handler: "runc", Date: date, Claims: claims,
			partial: partial}
	}
	var r results
	pass := func(text string) claim { return claim{Claim: text, Result: "pass"} }
	r.merge([]coreRun{at("1", false, pass("a"), claim{Claim: "b", Result: "fail"})})
	r.merge([]coreRun{at("2", true, pass("b"), pass("c"))})
	want := at("2", false, pass("a"), pass("b"), pass("c"))
	if diff := cmp.Diff([]coreRun{want}, r.runs, cmp.AllowUnexported(coreRun{})); diff != "" {
		t.Errorf("got (+), want (-):\n%s", diff)
	}
}

func TestLoadOfMissingAndOfInvalidFile(t *testing.T) {
	r := results{file: filepath.Join(t.TempDir(), "compatibility.json")}
	if err := r.load(); err != nil || r.runs != nil {
		t.Errorf("missing file: got %v, %v", r.runs, err)
	}
	if err := os.WriteFile(r.file, []byte(`[{"cel": "x"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	err := r.load()
	if err == nil || !strings.Contains(err.Error(), r.file) ||
		!strings.Contains(err.Error(), "cel") {
		t.Errorf("got %v, want an error with file and field", err)
	}
}

func TestHackNodeAcceptsEachCell(t *testing.T) {
	cells, err := selection{}.cells()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		err := (image.Spec{Suite: c.Suite, Containerd: c.Containerd}).Validate()
		if err != nil || len(c.Handlers) == 0 {
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
	_, err = selection{names: []string{"potato/2.4.2"}}.cells()
	if err == nil || !strings.Contains(err.Error(), "trixie/2.4.2") {
		t.Errorf("got %v, want an error with the names of the cells", err)
	}
	_, err = selection{handler: "kata"}.cells()
	if err == nil || !strings.Contains(err.Error(), "runc, crun") {
		t.Errorf("got %v, want an error with the names of the handlers", err)
	}
}
