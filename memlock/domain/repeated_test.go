package domain_test

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/memlock/domain"
)

// libvirt reads the first of repeated elements.
func TestParseReadsTheFirst(t *testing.T) {
	const large = "<memory unit='GiB'>7</memory>"
	module := func(target string) string {
		return "<memory model='dimm'>" + target + "</memory>"
	}
	one := "<target><size unit='GiB'>1</size></target>"
	for name, c := range map[string]struct{ once, repeated string }{
		"memory": {pc(pci), strings.Replace(pc(pci), memory1G, memory1G+large, 1)},
		"maxMemory": {
			with("<memory unit='GiB'>2</memory><maxMemory unit='GiB'>4</maxMemory>", pci),
			with("<memory unit='GiB'>2</memory>"+large+"<maxMemory unit='GiB'>4</maxMemory>"+
				"<maxMemory unit='GiB'>9</maxMemory>", pci)},
		"hard_limit": {pc(hardLimit), pc(hardLimit,
			"<memtune><hard_limit unit='GiB'>9</hard_limit></memtune>")},
		"hard_limit in one memtune": {pc(hardLimit), pc(strings.Replace(hardLimit, "</memtune>",
			"<hard_limit unit='GiB'>9</hard_limit></memtune>", 1))},
		"hard_limit of the second": {pc(hardLimit), pc("<memtune><soft_limit>1</soft_limit>"+
			"</memtune>", hardLimit)},
		"cells": {with("", cells("memory='1024'"), pci), with("", cells("memory='1024'"),
			cells("memory='4096'"), pci)},
		"memory device": {with(large, module(one), module(one), pci),
			with(large, module(one+"<target><size unit='GiB'>3</size></target>"),
				module("<target><size unit='GiB'>1</size><size unit='GiB'>2</size></target>"),
				pci)},
	} {
		want, err := domain.Parse([]byte(c.once))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := domain.Parse([]byte(c.repeated)); err != nil || got.Memory != want.Memory ||
			got.MaxMemory != want.MaxMemory || (got.HardLimit == nil) != (want.HardLimit == nil) ||
			got.HardLimit != nil && *got.HardLimit != *want.HardLimit {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
	}
}

// Only libvirt's QEMU driver limits locked memory.
func TestLimitOfAnotherHypervisor(t *testing.T) {
	for name, wrong := range map[string]bool{"xen": true, "lxc": true, "vz": true, "test": true,
		"kvm": false, "qemu": false, "hvf": false, "nvmm": false} {
		def, err := domain.Parse([]byte(guest(name, "x86_64", memory1G, pci)))
		if err != nil {
			t.Fatal(err)
		}
		r, err := def.Limit()
		if wrong && (err == nil || !strings.Contains(err.Error(), name)) || !wrong && err != nil {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// A domain with room for more memory needs more when it is full.
func TestLimitOfAFullDomain(t *testing.T) {
	const text = "<memory unit='GiB'>4</memory><maxMemory unit='GiB' slots='16'>64</maxMemory>"
	for name, c := range map[string]struct {
		xml       string
		now, full int64
	}{
		"device":         {with(text, pci), 5 * gib, 65 * gib},
		"two vDPA":       {with(text, vdpaNet, vdpaDisk), 9 * gib, 129 * gib},
		"no device":      {with(text), 0, 0},
		"without more":   {pc(pci), 2 * gib, 2 * gib},
		"hard limit":     {with(text, hardLimit, pci), 2 * gib, 2 * gib},
		"unlimited both": {with(text, locked, pci), unlimited, unlimited},
	} {
		now, _ := limitOf(t, c.xml)
		def, err := domain.Parse([]byte(c.xml))
		if err != nil {
			t.Fatal(err)
		}
		full, err := def.Full().Limit()
		if full.Unlimited {
			full.Bytes = unlimited
		}
		if err != nil || now != c.now || full.Bytes != c.full {
			t.Errorf("%s: now %d, full %d, %v, want %d, %d", name, now, full.Bytes, err, c.now,
				c.full)
		}
	}
}
