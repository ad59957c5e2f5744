package api

import (
	"regexp"
	"strconv"
)

// The families of files with a huge page size in their name.
const (
	hugetlbMax      = "hugetlb.<size>.max"
	hugetlbReserved = "hugetlb.<size>.rsvd.max"
)

// hugetlbName matches page sizes as mm/hugetlb_cgroup.c prints them.
var hugetlbName = regexp.MustCompile(`^hugetlb\.([1-9][0-9]{0,3})([KMG])B(\.rsvd)?\.max$`)

// lookupHugetlb returns the description of hugetlb.<size>.max or .rsvd.max.
func lookupHugetlb(name string) (f CgroupFile, ok bool) {
	m := hugetlbName.FindStringSubmatch(name)
	if m == nil {
		return CgroupFile{}, false
	}
	count, err := strconv.ParseInt(m[1], 10, 64)
	// powers of two; the next is 1 of the larger unit
	if err != nil || count&(count-1) != 0 || count > 512 {
		return CgroupFile{}, false
	}
	shift := map[string]int{"K": 10, "M": 20, "G": 30}[m[2]]
	return CgroupFile{Name: name, grammar: byteLimit{unit: count << shift}}, true
}
