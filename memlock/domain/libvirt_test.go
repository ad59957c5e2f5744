package domain_test

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// The cases of libvirt's own test of the function (tests/qemumemlocktest.c), in new domain XML.
// libvirt adds a PCI host bridge for the host device of a pSeries guest, which the XML lacks.
func TestLibvirtsCases(t *testing.T) {
	ppc := func(virt string, pieces ...string) string {
		return guest(virt, "ppc64", append(pieces, memory1G)...)
	}
	for name, c := range map[string]struct {
		xml  string
		want int64
	}{
		"pc-kvm":                           {pc(), 0},
		"pc-tcg":                           {guest("qemu", "x86_64", memory1G), 0},
		"pc-hardlimit":                     {pc(hardLimit), 2147483648},
		"pc-locked":                        {pc(locked), unlimited},
		"pc-hostdev":                       {pc(pci), 2147483648},
		"pc-hostdev-nvme":                  {pc(pci, nvme), 3221225472},
		"pc-hardlimit+locked":              {pc(hardLimit, locked), 2147483648},
		"pc-hardlimit+hostdev":             {pc(hardLimit, pci), 2147483648},
		"pc-hardlimit+locked+hostdev":      {pc(hardLimit, locked, pci), 2147483648},
		"pc-locked+hostdev":                {pc(locked, pci), unlimited},
		"pseries-kvm":                      {ppc("kvm"), 20971520},
		"pseries-tcg":                      {ppc("qemu"), 0},
		"pseries-hardlimit":                {ppc("kvm", hardLimit), 2147483648},
		"pseries-locked":                   {ppc("kvm", locked), unlimited},
		"pseries-hostdev":                  {ppc("kvm", pci), 4320133120},
		"pseries-hardlimit+locked":         {ppc("kvm", hardLimit, locked), 2147483648},
		"pseries-hardlimit+hostdev":        {ppc("kvm", hardLimit, pci), 2147483648},
		"pseries-hardlimit+locked+hostdev": {ppc("kvm", hardLimit, locked, pci), 2147483648},
		"pseries-locked+hostdev":           {ppc("kvm", locked, pci), unlimited},
	} {
		if got, r := limitOf(t, c.xml); got != c.want {
			t.Errorf("%s: got %d, want %d: %+v", name, got, c.want, r)
		}
	}
}

// The same with libvirt's own XML, if the developer has a copy. It has another licence and is not
// part of this repository.
func TestLibvirtsTable(t *testing.T) {
	root := filepath.Join("..", "..", "..", "shared", "data", "libvirt-memlock")
	f, err := os.Open(filepath.Join(root, "qemumemlock.tsv"))
	if os.IsNotExist(err) {
		t.Log("libvirt's own files are not here; TestLibvirtsCases has the same cases")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	table := csv.NewReader(f)
	table.Comma, table.LazyQuotes = '\t', true
	rows, err := table.ReadAll()
	if err != nil || len(rows) != 20 {
		t.Fatalf("%d rows, %v: want a heading and 19 cases", len(rows), err)
	}
	for _, row := range rows[1:] {
		text, err := os.ReadFile(filepath.Join(root, "xml", row[0]))
		if err != nil {
			t.Fatal(err)
		}
		want, err := strconv.ParseInt(row[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got, r := limitOf(t, string(text)); got != want {
			t.Errorf("%s: got %d, want %d: %+v", row[0], got, want, r)
		}
	}
}
