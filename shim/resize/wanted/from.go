package wanted

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/shim/virt"
)

// From returns the size that a pod's limits and annotations want for a guest. It is
// pure.
//
// Of request only VCPUs, Memory, CPUQuota and CPUShares count. An annotated size is taken as it is:
// one that the guest cannot have exactly is the planner's to refuse. A quota is the CPU
// time of all vCPUs together in percent of one CPU: with "150%" they get one and a half
// CPUs; or, as "1200/2400MHz", a frequency of each ([Frequency]). "none" takes the limit of the vCPUs away; the container's CPU limit stays. Shares follow no limit.
//
// The errors are [*api.InvalidError] for annotations that ask for more than the limits,
// and limits that no VM fits in; all of them, joined.
func From(p Pod, g Guest, overhead Overhead, request api.Request) (Size, error) {
	memory, cpu, err := p.limits()
	if err != nil {
		return Size{}, err
	}
	s := sizer{pod: p, guest: g, overhead: overhead, request: request, memory: memory, cpu: cpu}
	if request.CPUShares != nil {
		s.size.Shares = uint64(*request.CPUShares)
	}
	err = errors.Join(s.vcpus(), s.guestMemory(), s.bandwidth())
	if err != nil {
		return Size{}, err
	}
	return s.size, nil
}

// sizer computes one size.
type sizer struct {
	pod         Pod
	guest       Guest
	overhead    Overhead
	request     api.Request
	memory, cpu int64 // limits
	size        Size
}

func (s *sizer) vcpus() error {
	bound := (s.cpu + 999) / 1000
	s.size.VCPUs = int(min(bound, math.MaxInt32))
	asked := s.request.VCPUs
	if asked == nil {
		if s.guest.Keeps {
			s.size.VCPUs = 0
		}
		return nil
	}
	if bound > 0 && int64(*asked) > bound {
		return tooMuch(api.VCPUsKey, strconv.Itoa(*asked), "want at most %d, which is the CPU limit rounded up", bound)
	}
	s.size.VCPUs = *asked
	return nil
}

// count is how many vCPUs there will be.
func (s *sizer) count() int {
	if s.size.VCPUs > 0 {
		return s.size.VCPUs
	}
	return s.guest.VCPUs
}

func (s *sizer) guestMemory() error {
	if s.request.Memory != nil {
		return s.annotatedMemory(uint64(*s.request.Memory))
	}
	if s.memory == 0 || s.guest.Keeps {
		return nil
	}
	var err error
	s.size.Limit = uint64(s.memory)
	s.size.Memory, s.size.Overhead, err = s.guest.fit(s.size.Limit, s.count(), s.overhead)
	return err
}

func (s *sizer) annotatedMemory(asked uint64) error {
	beside, err := s.overhead(asked, s.count())
	if err != nil {
		return err
	}
	limit := uint64(s.memory)
	if limit > 0 && (asked > limit || beside > limit-asked) {
		most, _, err := s.guest.fit(limit, s.count(), s.overhead)
		if err != nil {
			return err
		}
		return tooMuch(api.ResizeMemoryKey, show(asked), "want at most %s: the memory limit is %s, and the launcher needs the rest",
			show(most), show(limit))
	}
	s.size.Memory, s.size.Overhead, s.size.Limit = asked, beside, limit
	return nil
}

func (s *sizer) bandwidth() error {
	milli, asked := s.cpu, s.request.CPUQuota
	switch {
	case asked == nil && s.guest.Keeps:
		return nil
	case asked == nil:
	case asked.None && s.pod.Outside && s.cpu > 0:
		return tooMuch(api.CPUQuotaKey, asked.String(), "the VM runs outside of the pod, so nothing else holds it to the CPU limit: want at most %s", percent(s.cpu))
	case asked.None:
		s.size.Bandwidth = &Bandwidth{Period: microseconds(usualPeriod), Quota: virt.Unlimited}
		return nil
	case asked.OfHost > 0:
		return s.frequency(*asked)
	default:
		milli = int64(asked.Percent) * 10
		if s.cpu > 0 && milli > s.cpu {
			return tooMuch(api.CPUQuotaKey, asked.String(), "want at most %s, which is the CPU limit", percent(s.cpu))
		}
	}
	if milli == 0 {
		return nil
	}
	b, err := Spread(milli, s.count())
	if err != nil {
		return err
	}
	b.FromLimit = milli == s.cpu && !s.pod.Outside
	s.size.Bandwidth = &b
	return nil
}

// frequency makes each vCPU as fast as asked. All of them together stay within the limit.
func (s *sizer) frequency(asked api.CPUQuota) error {
	b, err := Frequency(int64(asked.MHz), int64(asked.OfHost))
	if err != nil {
		return &api.InvalidError{Key: api.CPUQuotaKey, Value: asked.String(), Allowed: err.Error()}
	}
	vcpus := int64(s.count())
	all := vcpus * 1000 * int64(min(asked.MHz, asked.OfHost))
	if s.cpu > 0 && all > s.cpu*int64(asked.OfHost) {
		return tooMuch(api.CPUQuotaKey, asked.String(), "want at most %s for %d vCPUs together, which is the CPU limit", percent(s.cpu), vcpus)
	}
	b.FromLimit = s.cpu > 0 && all > (s.cpu-1)*int64(asked.OfHost) && !s.pod.Outside // rounded up
	s.size.Bandwidth = &b
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
