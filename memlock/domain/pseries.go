package domain

import "github.com/mooring-vm/mooring/memlock"

// forPSeries returns libvirt's limit for a pSeries guest with KVM. The kernel locks the guest's
// hash table and the tables of its DMA windows.
//
//	base         max / 128 + 4 MiB × bridges + 8 MiB
//	NVLink2      max + 128 TiB / 512 KiB × bridges + 8 MiB
//	passthrough  the larger of 2 GiB × bridges
//	             and memory + memory / 512 × bridges + 8 MiB
//
// max is the maximum memory, or else the memory. The base always counts. NVLink2 counts if there is
// such a bridge. Otherwise passthrough counts with VFIO devices, NVMe devices or vDPA interfaces,
// but not with vDPA disks. Divisions are in whole KiB. The source is getPPC64MemLockLimitBytes of
// libvirt.
func (def Definition) forPSeries() (memlock.Result, error) {
	most := def.MaxMemory
	if most == 0 {
		most = def.Memory
	}
	terms, err := def.withBridges("32-bit DMA windows", kib("hash table", most/128), 4<<10)
	if err != nil {
		return memlock.Result{}, err
	}
	reason := "the kernel locks the tables of a pSeries guest"
	var pinned []memlock.Term
	switch {
	case def.NVLink2:
		reason += ", and an NVLink2 bridge pins its memory"
		pinned, err = def.withBridges("64-bit DMA windows of NVLink2", kib("maximum memory", most),
			128<<30/512)
	case def.VFIO > 0 || def.NVMe > 0 || def.VDPAInterfaces > 0:
		reason += ", and devices pin its memory (" + def.devices().String() + ")"
		pinned, err = def.passthrough()
	}
	if err != nil {
		return memlock.Result{}, err
	}
	return limited(reason, append(terms, pinned...)...)
}

// withBridges adds two terms to t: windows of the given KiB for each PCI host bridge, and the 8 MiB
// that libvirt adds for their tables.
func (def Definition) withBridges(
	windows string, t memlock.Term, each uint64,
) ([]memlock.Term, error) {
	all, err := kib(windows, each).Times(int64(def.HostBridges))
	return []memlock.Term{t, all, kib("tables of DMA windows", 8<<10)}, err
}

func (def Definition) passthrough() ([]memlock.Term, error) {
	with64bit, err := def.withBridges("64-bit DMA windows", def.memory(), def.Memory/512)
	if err != nil {
		return nil, err
	}
	with32bit, err := kib("2 GiB DMA windows", 2<<20).Times(int64(def.HostBridges))
	if err != nil {
		return nil, err
	}
	if total, err := memlock.Total(with64bit); err != nil || total >= with32bit.Bytes {
		return with64bit, err
	}
	return []memlock.Term{with32bit}, nil
}

func kib(name string, size uint64) memlock.Term {
	return memlock.Term{Name: name, Bytes: int64(size) * KiB}
}
