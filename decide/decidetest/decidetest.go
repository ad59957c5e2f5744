// Package decidetest holds the node policy and pods for tests of decisions.
package decidetest

import (
	"maps"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
)

// NodePolicy is a policy in mode enforce, with a rule per kind of namespace.
const NodePolicy = `
apiVersion: mooring.dev/v1alpha1
kind: NodePolicy
mode: enforce
memlock:
  nodeMax: 64Gi
  repair: prlimit
lifecycle:
  libvirt: {}
profiles:
- name: kubevirt
  podLabels: {kubevirt.io: virt-launcher}
  container: compute
rules:
- name: trusted
  namespaces: ["trusted"]
  memlock: {max: 32Gi, unlimited: true}
  cgroupFiles: [cpu.max, cpu.max.burst, cpu.weight, cpuset.cpus, cpuset.mems, hugetlb.2MB.max, io.weight, memory.high, memory.low, pids.max]
  domains: ["vms-*", 5530f9f3-5627-4dec-933e-74ce04c51e18]
- name: tenants
  namespaces: ["tenant-*"]
  memlock: {max: 16Gi}
  cgroupFiles: [memory.high]
- name: by-account
  namespaces: ["accounts"]
  serviceAccounts: ["vm-*"]
  memlock: {max: 16Gi}
  domains: ["vms-*"]
`

// DomainUUID is a libvirt domain. Rule "trusted" of [NodePolicy] allows it.
const DomainUUID = "5530f9f3-5627-4dec-933e-74ce04c51e18"

// Policy returns [NodePolicy] in the given mode.
func Policy(t testing.TB, mode policy.Mode) *policy.Policy {
	t.Helper()
	p, err := policy.Parse([]byte(NodePolicy))
	if err != nil {
		t.Fatal(err)
	}
	p.Mode = mode
	return p
}

// Launcher returns the annotations of a pod whose launcher is container "compute", with more
// annotations added.
func Launcher(more map[string]string) map[string]string {
	all := map[string]string{api.LauncherKey: "compute"}
	maps.Copy(all, more)
	return all
}

// LauncherLabels returns labels by which [NodePolicy] recognises a launcher pod.
func LauncherLabels() map[string]string { return map[string]string{"kubevirt.io": "virt-launcher"} }

// VFIO returns annotations that ask for a memory lock of 5Gi: 4Gi for the guest and 1Gi for device
// I/O.
func VFIO() map[string]string {
	return map[string]string{api.GuestMemoryKey: "4Gi", api.DevicesKey: "vfio=1"}
}

// Lock returns annotations that ask for a memory lock of exactly this quantity.
func Lock(quantity string) map[string]string {
	return map[string]string{
		api.RequiresLockKey: "true", api.GuestMemoryKey: quantity, decide.KubeVirtOverheadKey: "0",
	}
}

// UnlimitedLock returns annotations that ask for an unlimited memory lock.
func UnlimitedLock() map[string]string {
	return map[string]string{api.RequiresLockKey: "true", api.ValueKey: api.Unlimited}
}

// Domain returns the annotation that declares a domain of the node's libvirt.
func Domain(name string) map[string]string { return map[string]string{api.DomainKey: name} }
