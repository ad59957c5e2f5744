package api

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// field is a key that sets a part of a Request.
type field struct {
	key string
	set func(r *Request, value string) error
}

// fields returns all keys except the many keys of cgroup files.
var fields = sync.OnceValue(func() []field {
	return []field{
		{RequiresLockKey, pointer(parseBool, func(r *Request) **bool { return &r.RequiresLock })},
		{ValueKey, pointer(ParseLockable, func(r *Request) **Lockable { return &r.Value })},
		{GuestMemoryKey, pointer(parsePositiveBytes[int64], func(r *Request) **int64 {
			return &r.GuestMemory
		})},
		{OverheadKey, pointer(ParseBytes, func(r *Request) **Bytes { return &r.Overhead })},
		{DevicesKey, value(ParseDevices, func(r *Request) *Devices { return &r.Devices })},
		{GracePeriodKey, pointer(parseDuration, func(r *Request) **time.Duration {
			return &r.GracePeriod
		})},
		{WatchdogKey, pointer(parseDuration, func(r *Request) **time.Duration {
			return &r.Watchdog
		})},
		{DomainKey, value(parseDomain, func(r *Request) *string { return &r.Domain })},
		{VCPUsKey, value(parseVCPUs, func(r *Request) *int { return &r.Size.VCPUs })},
		{ResizeMemoryKey, value(parsePositiveBytes[Bytes], func(r *Request) *Bytes {
			return &r.Size.Memory
		})},
		{CPUQuotaKey, value(ParseCPUQuota, func(r *Request) *CPUQuota { return &r.Size.CPUQuota })},
		{CPUSharesKey, value(parseCPUShares, func(r *Request) *int { return &r.Size.CPUShares })},
	}
})

// value returns a setter for a part of the Request without a pointer.
func value[T any](
	parse func(string) (T, error), part func(*Request) *T,
) func(*Request, string) error {
	return func(r *Request, s string) (err error) {
		*part(r), err = parse(s)
		return err
	}
}

// pointer returns a setter for a part of the Request that is nil if not requested.
func pointer[T any](
	parse func(string) (T, error), part func(*Request) **T,
) func(*Request, string) error {
	return func(r *Request, s string) error {
		v, err := parse(s)
		*part(r) = &v
		return err
	}
}

func parseBool(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, invalid(s, `want "true" or "false"`)
}

// lookupKey checks that a key without scope exists. podWide is true if the key concerns the pod as
// a whole.
func lookupKey(base string) (podWide bool, err error) {
	known := []string{LauncherKey, SidecarKey, APIVersionKey}
	if slices.Contains(known, base) ||
		slices.ContainsFunc(webhookFields(), func(f field) bool { return f.key == base }) {
		return true, nil
	}
	if file, ok := strings.CutSuffix(base, CgroupSuffix); ok {
		return false, CheckCgroupFile(file)
	}
	for _, f := range fields() {
		if f.key == base {
			return false, nil
		}
		known = append(known, f.key)
	}
	return false, invalid(base, "unknown key: want one of %s, <file>%s", strings.Join(known, ", "),
		CgroupSuffix)
}
