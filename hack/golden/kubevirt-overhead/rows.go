package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// row is a VM with a ratio, the input of KubeVirt's computation.
type row struct {
	VMI   json.RawMessage `json:"vmi"`
	Arch  string          `json:"arch"`
	Ratio *string         `json:"ratio"`

	name string
}

// none is the table's mark for no ratio, and for the overhead with a ratio in releases without one.
const none = "-"

// oddVMIs get rows with each of the odd ratios. Every VM gets rows without a ratio and with 1.5.
var (
	oddVMIs   = []string{"guest", "sizes", "guaranteed", "everything"}
	oddRatios = []string{"1", "1.0", "1.000001", "1.1", "1.3333333333333333", "2", "4.5", "10",
		"1e2", "0x1.8p1"}
)

// readRows makes the rows for the VMs in a file.
func readRows(path string) ([]row, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		r, err := newRow(document)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		ratios := []string{"1.5"}
		if slices.Contains(oddVMIs, r.name) {
			ratios = append(ratios, oddRatios...)
		}
		rows = append(rows, r)
		for _, ratio := range ratios {
			r.Ratio = &ratio
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// newRow reads one VM. KubeVirt's webhook sets its default architecture.
func newRow(document []byte) (row, error) {
	asJSON, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return row{}, err
	}
	var vmi struct {
		Metadata struct{ Name string }
		Spec     struct{ Architecture string }
	}
	if err := json.Unmarshal(asJSON, &vmi); err != nil {
		return row{}, err
	}
	r := row{VMI: asJSON, Arch: "amd64", name: vmi.Metadata.Name}
	if vmi.Spec.Architecture != "" {
		r.Arch = vmi.Spec.Architecture
	}
	return r, nil
}

// table has a column for each group of successive releases with the same results.
type table struct {
	rows    []row
	columns []column
}

type column struct {
	tags  []string
	cells []string
}

// add adds the cells of a release.
func (t *table) add(tag string, cells []string) {
	if n := len(t.columns); n > 0 && slices.Equal(t.columns[n-1].cells, cells) {
		t.columns[n-1].tags = append(t.columns[n-1].tags, tag)
		return
	}
	t.columns = append(t.columns, column{[]string{tag}, cells})
}

// text is the table as tab-separated text. A column's head lists its releases.
func (t *table) text() []byte {
	head := []string{"vmi", "ratio"}
	for _, c := range t.columns {
		head = append(head, strings.Join(c.tags, ","))
	}
	var b bytes.Buffer
	fmt.Fprintln(&b, strings.Join(head, "\t"))
	for i, r := range t.rows {
		cells := []string{r.name, none}
		if r.Ratio != nil {
			cells[1] = *r.Ratio
		}
		for _, c := range t.columns {
			cells = append(cells, c.cells[i])
		}
		fmt.Fprintln(&b, strings.Join(cells, "\t"))
	}
	return b.Bytes()
}

// cellsOf returns a cell for each result: none without one.
func cellsOf(results []*answer, cell func(answer) string) []string {
	cells := make([]string, len(results))
	for i, r := range results {
		if cells[i] = none; r != nil {
			cells[i] = cell(*r)
		}
	}
	return cells
}

func overheadCell(a answer) string { return fmt.Sprint(a.Overhead) }

// lockCell returns the lock at the start, with a slash and the lock of the running VM if it
// differs.
func lockCell(a answer) string {
	if a.Start == a.Running {
		return a.Start
	}
	return a.Start + "/" + a.Running
}
