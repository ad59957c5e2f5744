package kubevirt

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/memlock"
)

// Each condition requires a lock, and the reason names it.
func TestLimitConditions(t *testing.T) {
	for reason, vm := range map[string]VM{
		"the VM has hostDevices (1)":                 {HostDevices: 1},
		"the VM has gpus (1)":                        {GPUs: 1},
		"the VM has interfaces with sriov (1)":       {SRIOV: 1},
		"the VM has launchSecurity.sev":              {SEV: true},
		"the VM has launchSecurity.snp":              {SNP: true},
		"the VM has cpu.realtime":                    {CPU: CPU{Realtime: true}},
		"the VM has memory.reservedOverhead.memLock": {Memory: Memory{LockRequired: true}},
		"the VM has gpus (1), launchSecurity.sev":    {GPUs: 1, SEV: true},
		"the VM has hostDevices (1), gpus (2), interfaces with sriov (1)": {HostDevices: 1, GPUs: 2,
			SRIOV: 1},
	} {
		vm.Memory.Guest = 4*gi + 1
		version := mustVersion(t, "1.9")
		overhead, total, err := Overhead(vm, version, mustRatio(t, "1.5"))
		if err != nil {
			t.Fatal(err)
		}
		n, name := int64(1), ""
		if vm.devices() > 1 {
			n, name = 4, "4 x "
		}
		want := memlock.Result{Required: true, Bytes: total + n*(4*gi+1) + 703, Reason: reason,
			Terms: append(overhead,
				memlock.Term{Name: name + "guest memory (memory.guest)", Bytes: n * (4*gi + 1)},
				memlock.Term{Name: "rounding up to 1000 bytes", Bytes: 703})}
		got, err := Limit(vm, version, mustRatio(t, "1.5"))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%+v: %v (-want +got)\n%s", vm, err, diff)
		}
	}
}

func TestLimitNotRequired(t *testing.T) {
	got, err := Limit(VM{Memory: Memory{Guest: gi}, TPM: EnabledTPM}, mustVersion(t, "1.9"),
		Ratio{})
	if diff := cmp.Diff(memlock.Result{Reason: got.Reason}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for _, condition := range []string{"hostDevices", "gpus", "sriov", "launchSecurity.sev", ".snp",
		"cpu.realtime", "memLock"} {
		if !strings.Contains(got.Reason, condition) {
			t.Errorf("%q does not name %s", got.Reason, condition)
		}
	}
}

// The guest counts with its largest memory.
func TestLargestGuest(t *testing.T) {
	m := Memory{MaxGuest: 5, Guest: 4, Request: 3, Limit: 2, HugePage: 1}
	for _, c := range []struct {
		field string
		drop  func()
		want  int64
	}{
		{"memory.maxGuest", func() { m.MaxGuest = 0 }, 5},
		{"memory.guest", func() { m.Guest = 0 }, 4},
		{"resources.requests.memory", func() { m.Request = 0 }, 3},
		{"resources.limits.memory", func() { m.Limit = 0 }, 2},
		{"memory.hugepages.pageSize", func() { m.HugePage = 0 }, 1},
	} {
		if got, field, err := m.LargestGuest(); got != c.want || field != c.field || err != nil {
			t.Errorf("%+v: %d of %q, %v, want %d of %s", m, got, field, err, c.want, c.field)
		}
		c.drop()
	}
	_, err := Limit(VM{Memory: m, GPUs: 1}, mustVersion(t, "1.9"), Ratio{})
	for _, field := range []string{"memory.guest", "resources.requests.memory",
		"resources.limits.memory", "memory.hugepages.pageSize"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

// The reason names fields that the version does not know.
func TestLimitOfUnknownFields(t *testing.T) {
	vm := VM{Memory: Memory{Guest: gi, AddedOverhead: gi, LockRequired: true}, SNP: true}
	for version, want := range map[string]string{
		"1.6": "; KubeVirt 1.6.0 does not know launchSecurity.snp and memory.reservedOverhead, " +
			"so it is not in the overhead",
		"1.7": "; KubeVirt 1.7.0 does not know memory.reservedOverhead, so it is not in the " +
			"overhead",
		"1.8": "",
	} {
		got, err := Limit(vm, mustVersion(t, version), Ratio{})
		if want = "the VM has launchSecurity.snp, memory.reservedOverhead.memLock" +
			want; got.Reason != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", version, got.Reason, err, want)
		}
	}
}

func TestLimitErrors(t *testing.T) {
	version := mustVersion(t, "1.9")
	for want, vm := range map[string]VM{
		"more than an int64 holds":             {Memory: Memory{Guest: math.MaxInt64}, GPUs: 1},
		"want at most memory.maxGuest":         {Memory: Memory{Guest: 2, MaxGuest: 1}},
		"architecture: \"i386\"":               {Memory: Memory{Guest: 2}, Architecture: "i386"},
		"the VM has no memory: want":           {},
		"domain.devices.hostDevices: -1: want": {Memory: Memory{Guest: 2}, HostDevices: -1},
	} {
		got, err := Limit(vm, version, Ratio{})
		if err == nil || !strings.Contains(err.Error(), want) || got.Required || got.Reason != "" {
			t.Errorf("%+v: %+v, %v, want %s", vm, got, err, want)
		}
	}
}

// KubeVirt counts the memory of a guest with several devices once for each since 1.8.3.
func TestLimitOfSeveralDevices(t *testing.T) {
	for version, want := range map[string]int64{
		"1.8.2": 70_099_403_016, "1.8.3": 138_818_879_752, "1.8.4": 138_818_879_752,
		"1.9": 138_818_879_752, "main": 138_839_851_272, // with 20 MiB more for QEMU
	} {
		got, err := Limit(VM{GPUs: 2, Memory: Memory{Guest: 64 * gi}, CPU: CPU{Cores: 4}},
			mustVersion(t, version), Ratio{})
		if err != nil || got.Bytes != want {
			t.Errorf("%s: %d, %v, want %d", version, got.Bytes, err, want)
		}
		if told := strings.Contains(got.Reason, "virtual IOMMU"); told != (version == "1.8.2") {
			t.Errorf("%s: %s", version, got.Reason)
		}
	}
}

// The reason names differences from KubeVirt's own lock.
func TestReasonNamesDifferencesFromKubeVirt(t *testing.T) {
	gpu := VM{GPUs: 1, Memory: Memory{Guest: 2 * gi}}
	template, requested, grown := gpu, gpu, gpu
	template.Template = true
	requested.Memory.Request = 4 * gi
	grown.Template, grown.Memory.MaxGuest = true, 8*gi
	for _, c := range []struct {
		vm      VM
		version string
		want    string
	}{
		{template, "1.5", "the VM has gpus (1)"},
		{template, "1.6", "the VM has gpus (1); with the LiveUpdate roll-out strategy, which is " +
			"the default, KubeVirt enters a maxGuest of 4 x guest: " +
			"set maxGuest, or give the VirtualMachineInstance from the cluster"},
		{grown, "1.9", "the VM has gpus (1)"},
		{requested, "1.7", "the VM has gpus (1); KubeVirt starts from " +
			"requests.memory, which is more than the guest's"},
		{gpu, "main", "the VM has gpus (1); KubeVirt itself sets no limit any more"},
	} {
		got, err := Limit(c.vm, mustVersion(t, c.version), Ratio{})
		if err != nil || got.Reason != c.want {
			t.Errorf("%s, %+v: %q, %v, want %q", c.version, c.vm, got.Reason, err, c.want)
		}
	}
}
