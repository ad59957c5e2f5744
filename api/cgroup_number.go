package api

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// limitMax is the kernel's word for "no limit".
const limitMax = "max"

// maxBandwidth is the longest quota of cpu.max in microseconds: MAX_BW of
// kernel/sched/sched.h.
const maxBandwidth = 1<<44 - 1

// number is one whole number from lo to hi. With orMax it may also be "max".
type number struct {
	lo, hi int64
	unit   string // for people; may be empty
	orMax  bool
}

func (g number) allowed() string {
	s := fmt.Sprintf("a whole number from %d to %d", g.lo, g.hi)
	if g.unit != "" {
		s += " (" + g.unit + ")"
	}
	if g.orMax {
		s += `, or "max"`
	}
	return s
}

func (g number) normalize(value string) (string, bool) {
	if g.orMax && value == limitMax {
		return value, true
	}
	_, ok := parseCount(value, g.lo, g.hi)
	return value, ok
}

func (number) shows(content, value string) bool {
	return strings.TrimSpace(content) == value
}

// flag is 0 or 1.
type flag struct{ number }

func newFlag() flag { return flag{number{lo: 0, hi: 1}} }

func (flag) allowed() string { return "0 or 1" }

// byteLimit is a quantity of memory of at least lo bytes in whole units, or "max".
type byteLimit struct {
	lo   int64
	unit int64 // bytes; 0: any amount, which the kernel rounds down to whole pages
}

func (g byteLimit) allowed() string {
	s := "a quantity such as 9Gi"
	if g.lo > 0 {
		s += fmt.Sprintf(" of at least %s", Bytes(g.lo))
	}
	if g.unit > 0 {
		s += fmt.Sprintf(" in whole pages of %s", Bytes(g.unit))
	}
	return s + `, or "max"`
}

func (g byteLimit) normalize(value string) (string, bool) {
	if value == limitMax {
		return value, true
	}
	b, err := ParseBytes(value)
	if err != nil || int64(b) < g.lo || g.unit > 0 && int64(b)%g.unit != 0 {
		return "", false
	}
	return strconv.FormatInt(int64(b), 10), true
}

func (byteLimit) shows(content, value string) bool {
	return strings.TrimSpace(content) == roundToPages(value, int64(os.Getpagesize()))
}

// roundToPages returns a normalised amount of memory as the kernel shows it: mm/page_counter.c
// counts whole pages.
func roundToPages(value string, page int64) string {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n/page >= math.MaxInt64/page { // PAGE_COUNTER_MAX
		return limitMax
	}
	return strconv.FormatInt(n/page*page, 10)
}

// cpuMax is the quota and the period of cpu.max in microseconds. The ranges are the kernel's
// min_cfs_quota_period and max_cfs_quota_period.
type cpuMax struct{}

func (cpuMax) quota() number  { return number{lo: 1000, hi: maxBandwidth, orMax: true} }
func (cpuMax) period() number { return number{lo: 1000, hi: 1_000_000} }

func (cpuMax) allowed() string {
	return `QUOTA PERIOD in microseconds such as "150000 100000" or "max 100000": ` +
		"at least 1000 each, PERIOD up to 1000000, and 100000 when left out"
}

func (g cpuMax) normalize(value string) (string, bool) {
	quota, period, both := strings.Cut(value, " ")
	if !both {
		period = "100000"
	}
	_, quotaOK := g.quota().normalize(quota)
	_, periodOK := g.period().normalize(period)
	return quota + " " + period, quotaOK && periodOK
}

func (cpuMax) shows(content, value string) bool {
	return strings.TrimSpace(content) == value
}
