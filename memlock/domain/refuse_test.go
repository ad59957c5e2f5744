package domain_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/memlock"
	"github.com/mooring-vm/mooring/memlock/domain"
)

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ xml, want string }{
		{"", "domain XML: there is none: want one <domain> element"},
		{"  \n", "there is none"},
		{"<domain>", "XML syntax error on line 1: unexpected EOF"},
		{"<domain>\n<memory>1</memory>\n</domian>", "XML syntax error on line 3"},
		{"kind: Pod", "there is none"},
		{"<network/>", "line 1: network: expected element type <domain> but have <network>"},
		{"<domstatus><domain/></domstatus>", "but have <domstatus>"},
		{pc() + "\n" + pc(), "line 2: <domain> follows the domain"},
		{pc() + "\nand more", `"\nand more" follows the domain`},
		{"<domain/>", "memory: there is none: want <memory>, or memory in <cpu><numa><cell>"},
		{with("<memory>0</memory>"), "memory: 0 KiB: want more than"},
		{with("\n<memory unit='GiB'>1.5</memory>"),
			`line 2: domain/memory: "1.5": want a whole number that is not negative`},
		{with("<memory>-1</memory>"), `line 1: domain/memory: "-1": want a whole number`},
		{with("", "<cpu><numa><cell id='0' memory='1GiB'/></numa></cpu>"),
			`domain/cpu/numa/cell: "1GiB": want a whole number`},
		{"<?xml version='1.0' encoding='latin1'?>" + pc(), `encoding "latin1": want UTF-8`},
		{with("<memory unit='gibi'>1</memory>"), `memory: unit "gibi": want b, bytes, or k, M,`},
		{with("<memory unit='XiB'>1</memory>"), `unit "XiB"`},
		{with("<memory unit='EiB'>8</memory>"), "memory: 8 EiB: want less than 8 EiB"},
		{with("<memory unit='E'>18446744073709551615</memory>"), "memory: 18446744073709551615 " +
			"E: want less"},
		{with(memory1G, "<maxMemory unit='MiB'>512</maxMemory>"), "maxMemory: 524288 KiB: want " +
			"at least the domain's memory, which is 1048576 KiB"},
		{with(memory1G, "<maxMemory unit='ZiB'>512</maxMemory>"), `maxMemory: unit "ZiB"`},
		{
			with(memory1G, "<memtune><hard_limit "+
				"unit='PiB'>18446744073709551615</hard_limit></memtune>"),
			"memtune/hard_limit: 18446744073709551615 PiB: want less"},
		{with(memory1G, module("dimm", "<size unit='GiB'>1</size>")), "memory: 1048576 KiB: want " +
			"more than the memory devices have, which is 1048576 KiB"},
		{with(memory1G, module("dimm", "")), "devices/memory[0] target/size: there is none"},
		{with(memory1G, module("dimm", "<size unit='?'>1</size>")),
			"devices/memory[0] target/size: unit"},
		{with("", cells("memory='1'", "memory='8' unit='EiB'")), "cpu/numa/cell[1] memory: 8 EiB"},
		{with("", cells("memory='4' unit='EiB'", "memory='4' unit='EiB'")),
			"cpu/numa/cell[1] memory: 4503599627370496 KiB and 4503599627370496 KiB"},
		{guest("kvm", "ppc64", memory1G, module("nvdimm", "<size unit='MiB'>255</size>")),
			"want at least 256 MiB beside the label of 0 KiB"},
	} {
		def, err := domain.Parse([]byte(c.xml))
		if err == nil || !strings.HasPrefix(err.Error(), "domain XML: ") ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q\n%s", err, c.want, c.xml)
		}
		if diff := cmp.Diff(domain.Definition{}, def); diff != "" {
			t.Errorf("a definition beside the error: %s", diff)
		}
	}
}

func TestLimitBeyondInt64(t *testing.T) {
	for _, def := range []domain.Definition{
		{Memory: 1 << 52, VDPAInterfaces: 2},
		{Memory: 1<<53 - 1, VFIO: 1},
		{Memory: 1 << 52, Arch: "ppc64le", KVM: true, HostBridges: 1 << 30, VFIO: 1},
	} {
		if got, err := def.Limit(); err == nil ||
			!strings.Contains(err.Error(), "more than an int64 holds") {
			t.Errorf("%+v: got %+v, %v", def, got, err)
		}
	}
}

// A larger domain never has a lower limit. Hot-plug relies on it.
func TestMoreNeverGivesLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(0, 64)
		small := domain.Definition{
			Arch:   rapid.SampledFrom([]string{"x86_64", "ppc64le"}).Draw(t, "arch"),
			KVM:    rapid.Bool().Draw(t, "kvm"),
			Memory: rapid.Uint64Range(1, 1<<40).Draw(t, "memory"),
			VFIO:   count.Draw(t, "vfio"), NVMe: count.Draw(t, "nvme"),
			VDPADisks:      count.Draw(t, "disks"),
			VDPAInterfaces: count.Draw(t, "interfaces"), IOMMU: rapid.Bool().Draw(t, "iommu"),
			HostBridges: rapid.IntRange(1, 64).Draw(t, "bridges"),
		}
		large := small
		switch rapid.IntRange(0, 6).Draw(t, "more") {
		case 0:
			large.VFIO++
		case 1:
			large.NVMe++
		case 2:
			large.VDPADisks++
		case 3:
			large.VDPAInterfaces++
		case 4:
			large.Memory += rapid.Uint64Range(1, 1<<30).Draw(t, "grown")
		case 5:
			large.HostBridges++
		case 6:
			large.IOMMU = true
		}
		before, err := small.Limit()
		after, err2 := large.Limit()
		if err = errors.Join(err, err2); err != nil || !after.Covers(before) {
			t.Fatalf("%+v: %+v\n%+v: %+v\n%v", small, before, large, after, err)
		}
	})
}

// Each text gives an error, or a limit that is the sum of its terms.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{pc(pci, iommu, vdpaDisk), pseries(pci), pc(hardLimit),
		with("", cells("memory='1'"), module("dimm", "<size>1</size>")), "<domain>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		def, err := domain.Parse([]byte(text))
		if err != nil {
			return
		}
		r, err := def.Limit()
		if err != nil {
			return
		}
		if total, err := memlock.Total(r.Terms); err != nil || total != r.Bytes || r.Bytes < 0 {
			t.Errorf("%+v: %+v", def, r)
		}
	})
}

func ExampleDefinition_Limit() {
	def, err := domain.Parse([]byte(`
		<domain type='kvm'>
		  <memory unit='GiB'>4</memory>
		  <devices>
		    <interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface>
		    <interface type='vdpa'><source dev='/dev/vhost-vdpa-1'/></interface>
		  </devices>
		</domain>`))
	if err != nil {
		fmt.Println(err)
		return
	}
	limit, err := def.Limit()
	fmt.Println(limit.Bytes, err)
	for _, term := range limit.Terms {
		fmt.Println(term.Name, term.Bytes)
	}
	// Output:
	// 9663676416 <nil>
	// 2 x memory 8589934592
	// libvirt's allowance for device I/O 1073741824
}
