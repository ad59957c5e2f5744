package kubevirt

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/memlock"
)

func anyVersion(t *rapid.T) Version {
	text := rapid.SampledFrom([]string{
		"0.54", "0.55.2", "0.56", "0.57.1", "0.58.0", "0.58.1", "0.58.2", "0.59", "0.59.1", "1.0",
		"1.1", "1.2.2", "1.3", "1.4", "1.4.1",
		"1.5", "1.5.1", "1.5.3", "1.6", "1.6.3", "1.6.4", "1.7", "1.8", "1.9", "main",
	}).Draw(t, "version")
	version, err := ParseVersion(text)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// anyRatio draws a ratio for a version that knows it.
func anyRatio(t *rapid.T, version Version) Ratio {
	row, err := releaseOf(version)
	if err != nil {
		t.Fatal(err)
	}
	if !row.has(hasRatio) {
		return Ratio{}
	}
	text := rapid.SampledFrom([]string{"", "1", "1.5", "4.5", "1.0001", "100"}).Draw(t, "ratio")
	if text == "" {
		return Ratio{}
	}
	ratio, err := ParseRatio(text)
	if err != nil {
		t.Fatal(err)
	}
	return ratio
}

// anyVM draws a VM of up to 1 PiB and 4096 vCPUs.
func anyVM(t *rapid.T) VM {
	size := func(name string) int64 {
		return rapid.Custom(func(t *rapid.T) int64 {
			return rapid.Int64Range(0, 1<<50).Draw(t, name) * rapid.Int64Range(0,
				1).Draw(t, "there")
		}).Draw(t, name)
	}
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	few := func(name string) int { return rapid.IntRange(0, 3).Draw(t, name) }
	part := func(name string) uint32 { return rapid.Uint32Range(0, 16).Draw(t, name) }
	vm := VM{
		Memory: Memory{
			Request: size("request"), Limit: size("limit"), Guest: size("guest"),
			HugePage:      size("page"),
			AddedOverhead: size("added"), LockRequired: flag("lock"),
		},
		CPU: CPU{
			Sockets: part("sockets"), Cores: part("cores"), Threads: part("threads"),
			RequestMilli: rapid.Int64Range(0, 9000).Draw(t, "cpu request"),
			LimitMilli:   rapid.Int64Range(0, 9000).Draw(t, "cpu limit"),
			Dedicated:    flag("dedicated"), Realtime: flag("realtime"),
		},
		Architecture: rapid.SampledFrom([]string{"", "amd64", "arm64", "s390x", "ppc64le"}).Draw(t,
			"architecture"),
		NoGraphics: flag("no graphics"), TPM: TPM(rapid.IntRange(0, 2).Draw(t, "tpm")),
		HostDevices: few("hostDevices"), GPUs: few("gpus"), SRIOV: few("sriov"),
		Passt: few("passt"),
		SEV:   flag("sev"), SNP: flag("snp"), DownwardMetrics: flag("metrics"),
		LivenessExec: flag("liveness"), ReadinessExec: flag("readiness"),
	}
	if flag("hotplug") {
		vm.Memory.MaxGuest = rapid.Int64Range(max(1, vm.Memory.Guest), 1<<51).Draw(t, "maxGuest")
	}
	return vm
}

func total(t *rapid.T, vm VM, version Version, ratio Ratio) int64 {
	terms, sum, err := Overhead(vm, version, ratio)
	if err != nil {
		t.Fatal(err)
	}
	for _, term := range terms {
		if term.Bytes < 0 || term.Bytes == 0 || term.Name == "" {
			t.Errorf("term %v", term)
		}
	}
	if got, err := memlock.Total(terms); got != sum || err != nil {
		t.Errorf("terms of %d make %d, %v", got, sum, err)
	}
	return sum
}

func TestTermsMakeTheTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		version := anyVersion(t)
		vm, ratio := anyVM(t), anyRatio(t, version)
		overhead := total(t, vm, version, ratio)
		result, err := Limit(vm, version, ratio)
		guest, _, noMemory := vm.Memory.LargestGuest()
		if (err != nil) != (noMemory != nil) {
			t.Fatalf("%v, and %v", err, noMemory)
		}
		if err != nil || !result.Required {
			return
		}
		if row, err := releaseOf(version); err != nil || !row.has(countsReserved) {
			overhead += vm.Memory.AddedOverhead
		}
		// Defaults of KubeVirt's webhook may take the limit or a huge page as the memory.
		m := vm.Memory
		least := overhead + kubevirtMemory(vm, version, max(guest, m.Request))
		most := overhead + kubevirtMemory(vm, version, max(guest, m.Request, m.Limit, m.HugePage))
		if sum, err := memlock.Total(result.Terms); err != nil || sum != result.Bytes ||
			sum < least || sum > most {
			t.Errorf("%d, %v, want %d to %d", result.Bytes, err, least, most)
		}
	})
}

// kubevirtMemory is virt-handler's rule beyond the overhead.
func kubevirtMemory(vm VM, version Version, memory int64) int64 {
	sum := (memory + 999) / 1000 * 1000
	if n := vm.devices(); n > 1 && version.Compare(v(1, 8, 3)) >= 0 {
		sum += int64(n-1) * memory
	}
	return sum
}

// The bound covers virt-handler's own limit of every process.
func TestBoundCoversOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		version := anyVersion(t)
		vm, ratio := anyVM(t), anyRatio(t, version)
		if _, _, err := vm.Memory.LargestGuest(); err != nil {
			return
		}
		terms, err := Bound(vm, version, ratio)
		if err != nil {
			t.Fatal(err)
		}
		bound, err := memlock.Total(terms)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []Process{Daemon, QEMU} {
			own, err := Own(vm, version, ratio, p)
			if err != nil || own.Bytes > bound {
				t.Errorf("process %d: %d, %v, more than the bound %d", p, own.Bytes, err, bound)
			}
			if limit, err := Limit(vm, version, ratio); err != nil ||
				own.Required && !limit.Required {
				t.Errorf("virt-handler sets %+v, and the limit is %+v, %v", own, limit, err)
			}
		}
	})
}

// A larger amount never lowers the overhead. The test leaves out amounts that replace another one:
// defaults, and requests beyond the limits of a Guaranteed pod.
func TestMoreIsNeverLess(t *testing.T) {
	grow := map[string]func(*VM){
		"request":   func(vm *VM) { vm.Memory.Request += 1000 },
		"limit":     func(vm *VM) { vm.Memory.Limit += 1000 },
		"guest":     func(vm *VM) { vm.Memory.Guest += 1000; vm.Memory.MaxGuest = 0 },
		"added":     func(vm *VM) { vm.Memory.AddedOverhead++ },
		"sockets":   func(vm *VM) { vm.CPU.Sockets = max(1, vm.CPU.Sockets) * 2 },
		"dedicated": func(vm *VM) { vm.CPU.Dedicated = true },
		"graphics":  func(vm *VM) { vm.NoGraphics = false },
		"tpm":       func(vm *VM) { vm.TPM = EnabledTPM },
		"gpu":       func(vm *VM) { vm.GPUs++ },
		"device":    func(vm *VM) { vm.HostDevices++ },
		"sriov":     func(vm *VM) { vm.SRIOV++ },
		"passt":     func(vm *VM) { vm.Passt++ },
		"sev":       func(vm *VM) { vm.SEV = true },
		"snp":       func(vm *VM) { vm.SNP = true },
		"metrics":   func(vm *VM) { vm.DownwardMetrics = true },
		"liveness":  func(vm *VM) { vm.LivenessExec = true },
		"readiness": func(vm *VM) { vm.ReadinessExec = true },
	}
	for name, more := range grow {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				version := anyVersion(t)
				vm, ratio := anyVM(t), anyRatio(t, version)
				vm.CPU.RequestMilli, vm.CPU.LimitMilli = 0, 0
				vm.Memory.Request = max(1, vm.Memory.Request)
				if vm.CPU.Sockets|vm.CPU.Cores|vm.CPU.Threads == 0 {
					vm.CPU.Cores = 1
				}
				before := total(t, vm, version, ratio)
				more(&vm)
				if after := total(t, vm, version, ratio); after < before {
					t.Errorf("%d became %d", before, after)
				}
			})
		})
	}
}

// Another condition never lowers the lock.
func TestConditionNeverLowersLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		version := anyVersion(t)
		vm := anyVM(t)
		vm.Memory.Guest = max(1, vm.Memory.Guest)
		vm.Memory.MaxGuest = 0
		before, err := Limit(vm, version, Ratio{})
		if err != nil {
			t.Fatal(err)
		}
		rapid.SampledFrom([]func(){
			func() { vm.HostDevices++ }, func() { vm.GPUs++ }, func() { vm.SRIOV++ },
			func() { vm.SEV = true }, func() { vm.SNP = true },
			func() { vm.CPU.Realtime = true }, func() { vm.Memory.LockRequired = true },
			func() { vm.Memory.MaxGuest = math.MaxInt32 + vm.Memory.Guest },
		}).Draw(t, "condition")()
		after, err := Limit(vm, version, Ratio{})
		if err != nil || !after.Covers(before) {
			t.Errorf("%+v became %+v, %v", before, after, err)
		}
	})
}
