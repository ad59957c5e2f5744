package api

import (
	"fmt"
	"strings"

	"k8s.io/utils/cpuset"
)

// list is a list of CPUs or memory nodes such as "0-3,8", each below limit.
type list struct{ limit int }

func (g list) allowed() string {
	return fmt.Sprintf("a list such as 0-3,8 of numbers below %d, without spaces", g.limit)
}

func (g list) normalize(value string) (string, bool) {
	var all []int
	for part := range strings.SplitSeq(value, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		lo, loOK := parseCount(first, 0, int64(g.limit)-1)
		hi, hiOK := parseCount(last, lo, int64(g.limit)-1)
		if !loOK || !hiOK || len(all) > g.limit { // longer than any list without repetitions
			return "", false
		}
		for n := lo; n <= hi; n++ {
			all = append(all, int(n))
		}
	}
	return cpuset.New(all...).String(), true
}

func (list) shows(content, value string) bool {
	return strings.TrimSpace(content) == value
}
