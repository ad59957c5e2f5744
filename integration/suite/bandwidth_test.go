package suite

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// TestCPUTimeInTheKernel: the bandwidth and the shares that a VM of the node's libvirt is
// to have are what the kernel holds it to, also for vCPUs that come later.
func TestCPUTimeInTheKernel(t *testing.T) {
	f := setUpVMs(t)
	f.pushShim(t)
	v := f.runLaunchers(t, placements()[3:], want{annotations: map[string]string{api.GracePeriodKey: "2m"}})[0]
	f.startPrepared(t, v, domainXML(v.domain(), `<memory unit='MiB'>64</memory>`, ""), "--cpu-capacity=4")
	f.awaitVM(t, v, agentapi.VMRunning)
	f.runShim(t, v)
	f.runsFor(t, v, 1, "max 100000", "100")
	f.resize(t, v, "--cpu-quota=150%", "--vcpus=2", "--cpu-shares=200")
	f.runsFor(t, v, 2, "75000 100000", "200")
	f.resize(t, v, "--cpu-quota=150%", "--vcpus=3")
	f.runsFor(t, v, 3, "50000 100000", "200")
	f.resize(t, v, "--cpu-quota=none")
	f.runsFor(t, v, 3, "max 100000", "200")
}

// runsFor waits until the cgroups of a domain of the node's libvirt have that for each of
// so many vCPUs, and for all of it. systemd sets what is a scope's own a moment later.
func (f fixture) runsFor(t *testing.T, v *vm, vcpus int, cpuMax, cpuWeight string) {
	t.Helper()
	const show = `scope=/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$1/cgroup" | sed 's,/libvirt/[^/]*$,,')
		cat "$scope"/libvirt/vcpu*/cpu.max "$scope/cpu.weight"`
	wanted := strings.Repeat(cpuMax+"\n", vcpus) + cpuWeight
	has := func() string { return f.output(t, "sh", "-c", show, "sh", itoa(v.process.pid)) }
	eventually(t, "the kernel to have "+wanted, func() bool { return has() == wanted }, has)
}
