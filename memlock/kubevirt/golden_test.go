package kubevirt_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/memlock/kubevirt/vmi"
)

const (
	mi = int64(1) << 20
	gi = int64(1) << 30
)

// vmis reads testdata/vmis.yaml.
func vmis(t *testing.T) map[string]kubevirt.VM {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "vmis.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]kubevirt.VM{}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var object struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := yaml.Unmarshal(document, &object); err != nil {
			t.Fatal(err)
		}
		vm, err := vmi.Read(document)
		if err != nil {
			t.Errorf("%s: %v", object.Metadata.Name, err)
		}
		all[object.Metadata.Name] = vm
	}
	return all
}

// golden reads a table in testdata: the header and the rows.
func golden(t *testing.T, name string) (releases [][]string, rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, tags := range strings.Split(lines[0], "\t")[2:] {
		releases = append(releases, strings.Split(tags, ","))
	}
	for _, line := range lines[1:] {
		rows = append(rows, strings.Split(line, "\t"))
	}
	return releases, rows
}

// The table has the results of KubeVirt's own code.
func TestOverheadIsKubeVirts(t *testing.T) {
	vms := vmis(t)
	columns, rows := golden(t, "overhead.tsv")
	compared := 0
	for _, row := range rows {
		vm, ok := vms[row[0]]
		if !ok {
			t.Errorf("testdata/vmis.yaml lacks %s", row[0])
			continue
		}
		for i, tags := range columns {
			for _, tag := range tags {
				compared++
				if got := overheadText(t, vm, tag, row[1]); got != row[2+i] {
					t.Errorf("%s, %s, ratio %s: %s, and KubeVirt says %s", tag, row[0], row[1],
						got, row[2+i])
				}
			}
		}
	}
	if len(vms) < 40 || compared < 40*len(kubevirt.Releases()) {
		t.Errorf("compared %d overheads of %d VMs", compared, len(vms))
	}
}

// overheadText returns a cell of the table. "-" stands for no ratio in a row, and in a cell for
// KubeVirt's answer to a ratio that it does not know.
func overheadText(t *testing.T, vm kubevirt.VM, tag, ratio string) string {
	t.Helper()
	version, r := inputs(t, tag, ratio)
	_, total, err := kubevirt.Overhead(vm, version, r)
	if err != nil && strings.Contains(err.Error(), "knows no overhead ratio") {
		return "-"
	}
	if err != nil {
		return err.Error()
	}
	return strconv.FormatInt(total, 10)
}

// inputs parses a release and a ratio of a table.
func inputs(t *testing.T, tag, ratio string) (kubevirt.Version, kubevirt.Ratio) {
	t.Helper()
	version, err := kubevirt.ParseVersion(tag)
	if err != nil {
		t.Fatal(err)
	}
	var r kubevirt.Ratio
	if ratio != "-" {
		if r, err = kubevirt.ParseRatio(ratio); err != nil {
			t.Fatal(err)
		}
	}
	return version, r
}

// Each row of the table starts a column of the golden table. The tests thus check each row.
func TestGoldenTableCoversEveryRow(t *testing.T) {
	columns, _ := golden(t, "overhead.tsv")
	first := map[string]bool{}
	for _, tags := range columns {
		first[tags[0]] = true
	}
	for _, r := range kubevirt.Releases() {
		if !first["v"+r.String()] && !first[r.String()] {
			t.Errorf("%s starts no column of testdata/overhead.tsv", r)
		}
	}
	if len(columns) != len(kubevirt.Releases()) {
		t.Errorf("testdata/overhead.tsv has %d columns, the table %d rows", len(columns),
			len(kubevirt.Releases()))
	}
}

// Published figures of Harvester's and KubeVirt's tests.
func TestOverheadMatchesPublishedFigures(t *testing.T) {
	harvester := kubevirt.VM{CPU: kubevirt.CPU{Cores: 2},
		Memory: kubevirt.Memory{Limit: 4 * gi, Request: 2730 * mi}}
	for _, c := range []struct {
		version, ratio string
		vm             kubevirt.VM
		want           int64
	}{
		{"0.54", "-", harvester, 236277761},
		{"1.4", "-", kubevirt.VM{CPU: kubevirt.CPU{Cores: 1},
			Memory: kubevirt.Memory{Limit: gi, Request: 682 * mi}}, 255152128},
		{"1.4", "1.5", kubevirt.VM{CPU: kubevirt.CPU{Cores: 1},
			Memory: kubevirt.Memory{Limit: gi, Request: 682 * mi}}, 382728128},
		{"1.6", "-", harvester, 294998017},
		{"1.6", "1.5", harvester, 442497017},
		{"1.6", "4.5", harvester, 1327494017},
		{"1.8", "-", kubevirt.VM{CPU: kubevirt.CPU{Cores: 1},
			Memory: kubevirt.Memory{Limit: 2 * gi}}, 281018368},
		{"1.8", "1.5", kubevirt.VM{CPU: kubevirt.CPU{Cores: 1},
			Memory: kubevirt.Memory{Limit: 2 * gi}}, 421527368},
		{"1.9", "-", kubevirt.VM{Memory: kubevirt.Memory{Request: gi}}, 270 * mi},
		{"1.7", "-", kubevirt.VM{CPU: kubevirt.CPU{Cores: 4},
			Memory: kubevirt.Memory{Request: 8 * gi}}, 308 * mi},
		{"1.6", "-", kubevirt.VM{CPU: kubevirt.CPU{Sockets: 16},
			Memory: kubevirt.Memory{Request: 64 * gi}}, 516 * mi},
		{"1.6", "-", kubevirt.VM{CPU: kubevirt.CPU{Sockets: 16},
			Memory: kubevirt.Memory{Request: 64 * gi}, GPUs: 3}, 516*mi + gi},
	} {
		want := strconv.FormatInt(c.want, 10)
		if got := overheadText(t, c.vm, c.version, c.ratio); got != want {
			t.Errorf("%s, %+v, ratio %s: %s, want %s", c.version, c.vm, c.ratio, got, want)
		}
	}
}
