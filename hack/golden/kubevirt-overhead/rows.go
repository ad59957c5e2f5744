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

// row is what KubeVirt is asked for: the overhead of a VM with a ratio.
type row struct {
	VMI   json.RawMessage `json:"vmi"`
	Arch  string          `json:"arch"`
	Ratio *string         `json:"ratio"`

	name string
}

// none stands for no ratio in the table, and for the overhead with a ratio where
// KubeVirt has none.
const none = "-"

// The VMs named here are asked for with each of the odd ratios, the others with none
// and with 1.5.
var (
	oddVMIs   = []string{"guest", "sizes", "guaranteed", "everything"}
	oddRatios = []string{"1", "1.0", "1.000001", "1.1", "1.3333333333333333", "2", "4.5", "10", "1e2", "0x1.8p1"}
)

// readRows makes the rows for the VMs of a file.
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

// newRow reads one VM. KubeVirt's webhook enters its default architecture.
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

// table has a column for each group of successive releases that agree in every row.
type table struct {
	rows    []row
	columns []column
}

type column struct {
	tags  []string
	bytes []*int64
}

// add enters what a release says.
func (t *table) add(tag string, said []*int64) {
	same := func(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }
	if n := len(t.columns); n > 0 && slices.EqualFunc(t.columns[n-1].bytes, said, same) {
		t.columns[n-1].tags = append(t.columns[n-1].tags, tag)
		return
	}
	t.columns = append(t.columns, column{[]string{tag}, said})
}

// text writes the table: tab-separated, the releases of a column in its head.
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
			cell := none
			if c.bytes[i] != nil {
				cell = fmt.Sprint(*c.bytes[i])
			}
			cells = append(cells, cell)
		}
		fmt.Fprintln(&b, strings.Join(cells, "\t"))
	}
	return b.Bytes()
}
