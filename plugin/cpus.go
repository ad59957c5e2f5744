package plugin

import (
	nri "github.com/containerd/nri/pkg/api"
	"k8s.io/utils/cpuset"
)

// maxCPUs is an upper bound, larger than any machine.
const maxCPUs = 1 << 20

// cpus returns the number of CPUs of a container in thousandths: the largest of its limit, its
// cpuset and its request, which arrives as shares. 0 means that it has none of them. A VM manager
// may overcommit CPUs by a small request, and kubelet sets no limit for exclusive CPUs.
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
