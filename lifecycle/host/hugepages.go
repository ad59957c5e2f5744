package host

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// HugePages is the directory of the kernel's pools of huge pages.
const HugePages = "/sys/kernel/mm/hugepages"

// HugePageLimit returns the bytes of huge pages that the processes of a cgroup can have. For each
// page size this is hugetlb.<size>.max of the cgroup, or else the node's pool. pools is the content
// of [HugePages].
func HugePageLimit(k Kernel, pools fs.FS, cgroup string) (int64, error) {
	dirs, err := fs.ReadDir(pools, ".")
	if errors.Is(err, fs.ErrNotExist) { // a kernel without huge pages
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("pools of huge pages: %w", err)
	}
	var sum int64
	for _, dir := range dirs {
		kib, err := poolSize(dir.Name())
		if err != nil {
			return 0, err
		}
		limit, err := hugePagesOfSize(k, pools, cgroup, dir.Name(), kib)
		if err != nil {
			return 0, err
		}
		sum = addBytes(sum, limit)
	}
	return sum, nil
}

// poolSize returns the page size in KiB from the name of a pool, such as hugepages-2048kB.
func poolSize(name string) (kib uint64, err error) {
	text, _ := strings.CutPrefix(name, "hugepages-")
	text, ok := strings.CutSuffix(text, "kB")
	kib, err = strconv.ParseUint(text, 10, 64)
	if err != nil || !ok {
		return 0, fmt.Errorf("pool of huge pages %q: want a name such as hugepages-2048kB", name)
	}
	return kib, nil
}

func hugePagesOfSize(
	k Kernel, pools fs.FS, cgroup, pool string, kib uint64,
) (int64, error) {
	file := "hugetlb." + hugePageName(kib) + ".max"
	content, err := k.ReadCgroup(cgroup, file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if limit, ok := ParseLimit(content); err == nil && !ok {
		return 0, fmt.Errorf("%s of cgroup %s: %.40q is not a number", file, cgroup, content)
	} else if ok && limit <= math.MaxInt64 {
		return int64(limit), nil
	}
	return poolBytes(pools, pool, kib)
}

// poolBytes returns the largest size of a pool: its pages, and those that the kernel may add.
func poolBytes(pools fs.FS, pool string, kib uint64) (int64, error) {
	var pages uint64
	for _, file := range []string{"nr_hugepages", "nr_overcommit_hugepages"} {
		content, err := fs.ReadFile(pools, pool+"/"+file)
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(content)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s of %s: %w", file, pool, err)
		}
		var carry uint64
		if pages, carry = bits.Add64(pages, n, 0); carry != 0 {
			return math.MaxInt64, nil
		}
	}
	high, low := bits.Mul64(pages, kib<<10)
	if high != 0 || low > math.MaxInt64 {
		return math.MaxInt64, nil
	}
	return int64(low), nil
}

// hugePageName formats a page size like mm/hugetlb_cgroup.c.
func hugePageName(kib uint64) string {
	switch {
	case kib >= 1<<20:
		return fmt.Sprintf("%dGB", kib>>20)
	case kib >= 1<<10:
		return fmt.Sprintf("%dMB", kib>>10)
	}
	return fmt.Sprintf("%dKB", kib)
}
