package target

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/virt"
)

// Compute returns the target for a guest from the limits of its pod and the size that the pod asks
// for. It is pure.
//
// Compute rounds requested memory down to whole blocks of the guest. A number of vCPUs or memory
// that follows the limits stays within the VM's bounds. Both leave a note.
//
// A quota in percent is the CPU time of all vCPUs together: "150%" gives them one and a half CPUs.
// A quota such as "1200/2400MHz" is the frequency of each vCPU ([Frequency]). "none" removes the
// vCPUs' limit; the container's CPU limit stays. CPU shares follow no limit.
//
// The error joins all faults: an [*api.InvalidError] for each dimension that exceeds the limits,
// and limits without space for a guest.
func Compute(desired podapi.Desired, g Guest, overhead Overhead) (Target, error) {
	memory, cpu, err := bounds(desired)
	if err != nil {
		return Target{}, err
	}
	c := computation{
		desired: desired, guest: g, overhead: overhead, memory: memory, cpu: cpu,
		target: Target{Generation: desired.Generation, Size: desired.Size},
	}
	if err := errors.Join(c.vcpus(), c.guestMemory(), c.bandwidth()); err != nil {
		return Target{}, err
	}
	return c.target, nil
}

// bounds returns the limits of the VM, in bytes and in thousandths of a CPU; 0 is no limit.
func bounds(d podapi.Desired) (memory, cpu int64, err error) {
	for _, n := range []int64{d.Limits.Memory, d.Limits.CPU, d.Pod.Memory, d.Pod.CPU} {
		if n < 0 {
			return 0, 0, fmt.Errorf("limits of container %q: %d: want no less than 0",
				d.Launcher, n)
		}
	}
	return lower(d.Limits.Memory, d.Pod.Memory), lower(d.Limits.CPU, d.Pod.CPU), nil
}

// lower returns the lower of two limits.
func lower(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// computation computes one target.
type computation struct {
	desired     podapi.Desired
	guest       Guest
	overhead    Overhead
	memory, cpu int64 // limits
	target      Target
}

func (c *computation) vcpus() error {
	most := (c.cpu + 999) / 1000
	requested := c.desired.VCPUs
	switch {
	case requested != 0 && most > 0 && int64(requested) > most:
		c.target.VCPUs = int(most) // for the errors of the other dimensions
		return tooMuch(api.VCPUsKey, strconv.Itoa(requested), "want at most %d, which is the CPU "+
			"limit rounded up", most)
	case requested == 0 && !c.guest.Keeps && most > 0:
		c.target.Follows.VCPUs = true
		c.target.VCPUs = c.possibleVCPUs(int(min(most, math.MaxInt32)))
	}
	return nil
}

// possibleVCPUs returns the number of vCPUs nearest to n that the VM can have.
func (c *computation) possibleVCPUs(n int) int {
	possible := max(n, c.guest.MinVCPUs)
	if most := c.guest.MaxVCPUs; most > 0 {
		possible = min(possible, most)
	}
	if possible != n {
		c.note("vCPUs: the CPU limit allows %d, and the VM can have %d to %d", n,
			c.guest.MinVCPUs, c.guest.MaxVCPUs)
	}
	return possible
}

func (c *computation) note(format string, args ...any) {
	c.target.Notes = append(c.target.Notes, fmt.Sprintf(format, args...))
}

// vcpuCount returns the number of vCPUs that the VM will have.
func (c *computation) vcpuCount() int {
	if c.target.VCPUs > 0 {
		return c.target.VCPUs
	}
	return c.guest.VCPUs
}

func (c *computation) guestMemory() error {
	if c.guest.HugePages {
		return c.hugePages()
	}
	if c.desired.Memory != 0 {
		return c.requestedMemory(uint64(c.desired.Memory))
	}
	if c.memory == 0 || c.guest.Keeps {
		return nil
	}
	limit := uint64(c.memory)
	memory, overhead, err := c.guest.fit(limit, c.vcpuCount(), c.overhead)
	if most := c.guest.MaxMemory; err == nil && most > 0 && memory > most {
		c.note("memory: the limit allows %s, and the VM can have at most %s", show(memory),
			show(most))
		memory = c.guest.down(most)
		overhead, err = c.overhead(memory, c.vcpuCount())
	}
	// memory is below limit
	c.target.Memory, c.target.Overhead, c.target.Limit = api.Bytes(memory), overhead, limit
	c.target.Follows.Memory = true
	return err
}

func (c *computation) requestedMemory(requested uint64) error {
	memory := c.wholeBlocks(requested)
	overhead, err := c.overhead(memory, c.vcpuCount())
	if err != nil {
		return err
	}
	limit := uint64(c.memory)
	if limit > 0 && (memory > limit || overhead > limit-memory) {
		most, _, err := c.guest.fit(limit, c.vcpuCount(), c.overhead)
		if err != nil {
			return err
		}
		return tooMuch(api.ResizeMemoryKey, show(requested), "want at most %s: the memory limit "+
			"is %s, and the launcher needs the rest",
			show(most), show(limit))
	}
	c.target.Memory, c.target.Overhead, c.target.Limit = api.Bytes(memory), overhead, limit
	return nil
}

// wholeBlocks rounds requested memory down to whole blocks. It does not round to whole DIMMs, which
// can be much smaller: the planner refuses such a size.
func (c *computation) wholeBlocks(requested uint64) uint64 {
	near := c.guest.down(requested)
	if near == 0 || near == requested || requested-near >= c.guest.Block {
		return requested
	}
	c.note("memory: %s requested, and the guest's memory changes in steps of %s: %s",
		show(requested), show(c.guest.Block), show(near))
	return near
}

func (c *computation) bandwidth() error {
	milli, requested := c.cpu, c.desired.CPUQuota
	switch none := requested == (api.CPUQuota{}); {
	case none && c.guest.Keeps:
		return nil
	case none:
	case requested.None && c.desired.Outside && c.cpu > 0:
		return tooMuch(api.CPUQuotaKey, requested.String(), "the VM runs outside of the pod, so "+
			"nothing else holds it to the CPU limit: want at most %s", percent(c.cpu))
	case requested.None:
		c.target.Bandwidth = &Bandwidth{Period: usualPeriod * time.Microsecond,
			Quota: virt.Unlimited}
		return nil
	case requested.OfHost > 0:
		return c.frequency(requested)
	default:
		milli = int64(requested.Percent) * 10
		if c.cpu > 0 && milli > c.cpu {
			return tooMuch(api.CPUQuotaKey, requested.String(), "want at most %s, which is the "+
				"CPU limit", percent(c.cpu))
		}
	}
	if milli == 0 {
		return nil
	}
	b, err := Spread(milli, c.vcpuCount())
	if err != nil {
		return err
	}
	b.FromLimit = milli == c.cpu && !c.desired.Outside
	c.target.Bandwidth = &b
	return nil
}

// frequency gives each vCPU the requested frequency. All vCPUs together must stay within the limit.
func (c *computation) frequency(requested api.CPUQuota) error {
	b, err := Frequency(int64(requested.MHz), int64(requested.OfHost))
	if err != nil {
		return &api.InvalidError{Key: api.CPUQuotaKey, Value: requested.String(),
			Allowed: err.Error()}
	}
	vcpus := int64(c.vcpuCount())
	all := vcpus * 1000 * int64(min(requested.MHz, requested.OfHost))
	if c.cpu > 0 && all > c.cpu*int64(requested.OfHost) {
		return tooMuch(api.CPUQuotaKey, requested.String(), "want at most %s for %d vCPUs "+
			"together, which is the CPU limit", percent(c.cpu), vcpus)
	}
	// rounded up
	b.FromLimit = c.cpu > 0 && all > (c.cpu-1)*int64(requested.OfHost) && !c.desired.Outside
	c.target.Bandwidth = &b
	return nil
}

// percent prints thousandths of a CPU.
func percent(milli int64) string {
	return strconv.FormatFloat(float64(milli)/10, 'f', -1, 64) + "%"
}

func tooMuch(key, value, format string, args ...any) error {
	return &api.InvalidError{Key: key, Value: value, Allowed: fmt.Sprintf(format, args...)}
}

func show(n uint64) string {
	if n > math.MaxInt64 {
		return strconv.FormatUint(n, 10)
	}
	return api.Bytes(n).String()
}
