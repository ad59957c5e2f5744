package plugin

import (
	nri "github.com/containerd/nri/pkg/api"
	"k8s.io/utils/cpuset"
)

// maxCPUs is more than any machine has.
const maxCPUs = 1 << 20

// cpus is how many CPUs a container has, in thousandths, 0 when nothing says so: the
// most of its limit, of its cpuset, and of its request, which arrives as shares. The
// request alone says little where the VM manager overcommits CPUs; and kubelet sets no
// limit for a container that has CPUs of its own.
func cpus(cpu *nri.LinuxCPU) int64 {
	own := 0
	if set, err := cpuset.Parse(cpu.GetCpus()); err == nil {
		own = set.Size()
	}
	shares := min(cpu.GetShares().GetValue(), maxCPUs*1024)
	return max(cpuLimit(cpu), 1000*int64(own), int64(shares)*1000/1024)
}

func cpuLimit(cpu *nri.LinuxCPU) int64 {
	quota, period := cpu.GetQuota().GetValue(), cpu.GetPeriod().GetValue()
	if quota <= 0 || period == 0 || period > maxCPUs*1000 {
		return 0
	}
	return min(quota, maxCPUs*int64(period)) * 1000 / int64(period)
}
