package suite

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// The cgroups of a VM of the node's libvirt have the desired bandwidth and shares, also for
// vCPUs added later.
func TestCPUTimeInTheKernel(t *testing.T) {
	f := setUpVMs(t)
	f.pushShim(t)
	v := f.runLaunchers(t, placements()[3:],
		vmOptions{annotations: map[string]string{api.GracePeriodKey: "2m"}})[0]
	f.startPrepared(t, v, domainXML(v.domain(), `<memory unit='MiB'>64</memory>`, ""),
		"--cpu-capacity=4")
	f.awaitVM(t, v, agentapi.VMRunning)
	f.runShim(t, v)
	f.awaitCPUTime(t, v, 1, "max 100000", "100")
	f.resize(t, v, "--cpu-quota=150%", "--vcpus=2", "--cpu-shares=200")
	f.awaitCPUTime(t, v, 2, "75000 100000", "200")
	f.resize(t, v, "--cpu-quota=150%", "--vcpus=3")
	f.awaitCPUTime(t, v, 3, "50000 100000", "200")
	f.resize(t, v, "--cpu-quota=none")
	f.awaitCPUTime(t, v, 3, "max 100000", "200")
}

// awaitCPUTime waits until the cgroups of a domain of the node's libvirt have cpuMax for each
// vCPU and cpuWeight for the domain. systemd sets the scope's own values a moment later.
func (f fixture) awaitCPUTime(t *testing.T, v *vm, vcpus int, cpuMax, cpuWeight string) {
	t.Helper()
	const show = `scope=/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$1/cgroup" | sed 's,/libvirt/[^/]*$,,')
		cat "$scope"/libvirt/vcpu*/cpu.max "$scope/cpu.weight"`
	want := strings.Repeat(cpuMax+"\n", vcpus) + cpuWeight
	has := func() string { return f.output(t, "sh", "-c", show, "sh", itoa(v.vmProcess.pid)) }
	eventually(t, "the kernel to have "+want, func() bool { return has() == want }, has)
}
