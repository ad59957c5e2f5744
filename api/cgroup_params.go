package api

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	blockDevice  = regexp.MustCompile(`^(0|[1-9][0-9]{0,3}):(0|[1-9][0-9]{0,6})$`) // 12 and 20 bits
	rdmaDevice   = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,63}$`)
	weighted     = regexp.MustCompile(`^default$|` + blockDevice.String())
	miscResource = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)
)

// params is one device followed by NAME=VALUE pairs. The kernel takes one device with each write.
// An absent name keeps its value, which is "max" in a new cgroup.
type params struct {
	device  *regexp.Regexp
	example string
	pairs   []param
}

// param is one NAME of params. Its value is a number, or also a quantity if bytes is set.
type param struct {
	name   string
	limits number
	bytes  bool
}

func ioMax() params {
	// Older kernels refuse 1, and UINT_MAX operations are "max".
	rate := number{lo: 2, hi: math.MaxInt64, orMax: true}
	operations := number{lo: 2, hi: math.MaxUint32 - 1, orMax: true}
	return params{blockDevice, "8:16 rbps=100Mi wiops=120", []param{
		{"rbps", rate, true}, {"wbps", rate, true}, {"riops", operations, false},
		{"wiops", operations, false},
	}}
}

func ioLatency() params {
	// The kernel counts in nanoseconds.
	target := number{lo: 1, hi: math.MaxInt64 / 1000}
	return params{blockDevice, "8:16 target=75000", []param{{"target", target, false}}}
}

func rdmaMax() params {
	// S32_MAX is "max".
	count := number{lo: 0, hi: math.MaxInt32 - 1, orMax: true}
	return params{rdmaDevice, "mlx5_0 hca_handle=2 hca_object=2000", []param{
		{"hca_handle", count, false}, {"hca_object", count, false},
	}}
}

func (g params) allowed() string {
	names := make([]string, len(g.pairs))
	for i, p := range g.pairs {
		names[i] = p.name
	}
	return fmt.Sprintf("one device and one or more of %s, such as %q", strings.Join(names, ", "),
		g.example)
}

// normalize returns the pairs in the kernel's order.
func (g params) normalize(value string) (string, bool) {
	device, rest, _ := strings.Cut(value, " ")
	if !g.device.MatchString(device) {
		return "", false
	}
	given := map[string]string{}
	for pair := range strings.SplitSeq(rest, " ") {
		name, value, _ := strings.Cut(pair, "=")
		if _, twice := given[name]; twice {
			return "", false
		}
		normal, ok := g.normalizePair(name, value)
		if !ok {
			return "", false
		}
		given[name] = normal
	}
	words := []string{device}
	for _, p := range g.pairs {
		if value, ok := given[p.name]; ok {
			words = append(words, p.name+"="+value)
		}
	}
	return strings.Join(words, " "), true
}

func (g params) normalizePair(name, value string) (string, bool) {
	at := slices.IndexFunc(g.pairs, func(p param) bool { return p.name == name })
	if at < 0 {
		return "", false
	}
	p := g.pairs[at]
	if b, err := ParseBytes(value); p.bytes && err == nil {
		value = strconv.FormatInt(int64(b), 10)
	}
	return p.limits.normalize(value)
}

// shows searches the device's line for each pair. A device without limits has no line.
func (params) shows(content, value string) bool {
	device, rest, _ := strings.Cut(value, " ")
	shown, listed := deviceLine(content, device)
	for pair := range strings.SplitSeq(rest, " ") {
		if !slices.Contains(shown, pair) && (listed || !strings.HasSuffix(pair, "="+limitMax)) {
			return false
		}
	}
	return true
}

// deviceLine returns the words after the device in its line.
func deviceLine(content, device string) (words []string, ok bool) {
	for line := range strings.Lines(content) {
		if words := strings.Fields(line); len(words) > 0 && words[0] == device {
			return words[1:], true
		}
	}
	return nil, false
}

// pair is a NAME and a number, such as a device and its weight.
type pair struct {
	name    *regexp.Regexp
	value   number
	initial string // NAME when left out; empty: it must not be
	example string
}

func ioWeight() pair {
	return pair{weighted, number{lo: 1, hi: 10000}, "default", `"default 100" or "8:16 200"`}
}

func miscMax() pair {
	return pair{miscResource, number{lo: 0, hi: math.MaxInt64, orMax: true}, "",
		`"sev 10" or "sev max"`}
}

func (g pair) allowed() string {
	return fmt.Sprintf("one name and %s, such as %s", g.value.allowed(), g.example)
}

func (g pair) normalize(value string) (string, bool) {
	name, number, both := strings.Cut(value, " ")
	if !both && g.initial != "" {
		name, number = g.initial, value
	}
	number, ok := g.value.normalize(number)
	return name + " " + number, ok && g.name.MatchString(name)
}

func (pair) shows(content, value string) bool {
	name, number, _ := strings.Cut(value, " ")
	shown, _ := deviceLine(content, name)
	return slices.Equal(shown, []string{number})
}
