package host_test

import (
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
)

// Processes with any memory locks never lock more than the charge of a bounded container.
func TestBoundCoversAllProcesses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(0, 1<<40)
		bound := host.Bound{Memory: size.Draw(t, "memory"), HugePages: size.Draw(t, "huge pages")}
		lock := host.Limit(size.Draw(t, "lock"))
		charge, bounded := bound.Charge(lock)
		if bounded != (bound.Memory > 0) {
			t.Fatalf("bounded = %t with a memory limit of %d", bounded, bound.Memory)
		}
		if !bounded {
			if charge != int64(lock) {
				t.Fatalf("unbounded charge = %d, want the lock of %d", charge, lock)
			}
			return
		}
		var locked int64
		room := bound.Memory + bound.HugePages
		for range rapid.IntRange(1, 8).Draw(t, "processes") {
			locked += min(int64(lock), room-locked)
		}
		if locked > charge {
			t.Fatalf("processes locked %d, and the charge is %d", locked, charge)
		}
	})
}

func TestBoundOfExtremes(t *testing.T) {
	for name, c := range map[string]struct {
		bound   host.Bound
		lock    host.Limit
		want    int64
		bounded bool
	}{
		"unlimited lock":          {host.Bound{Memory: 5, HugePages: 7}, host.Unlimited, 12, true},
		"unlimited and unbounded": {host.Bound{HugePages: 7}, host.Unlimited, 0, false},
		"no memory limit of OCI":  {host.Bound{Memory: -1}, 3, 3, false},
		"large lock":              {host.Bound{}, 1 << 63, math.MaxInt64, false},
		"small limit, VM outside": {host.Bound{Memory: 5, HugePages: 7, Outside: true}, 13, 13, false},
		"large limit, VM outside": {host.Bound{Memory: 5, HugePages: 7, Outside: true}, 11, 12, false},
		"unlimited VM outside": {host.Bound{Memory: 5, HugePages: 7, Outside: true}, host.Unlimited,
			12, false},
		"no limit, VM outside": {host.Bound{HugePages: 7, Outside: true}, 3, 3, false},
		"sum does not wrap": {host.Bound{Memory: math.MaxInt64, HugePages: 1}, 1,
			math.MaxInt64, true},
	} {
		if got, bounded := c.bound.Charge(c.lock); got != c.want || bounded != c.bounded {
			t.Errorf("%s: charge %d, %t, want %d, %t", name, got, bounded, c.want, c.bounded)
		}
	}
}

func TestHugePageLimit(t *testing.T) {
	pool := func(pages, more string) fstest.MapFS {
		dir := "hugepages-2048kB/"
		return fstest.MapFS{
			dir + "nr_hugepages":            {Data: []byte(pages + "\n")},
			dir + "nr_overcommit_hugepages": {Data: []byte(more + "\n")},
		}
	}
	for name, c := range map[string]struct {
		pools fstest.MapFS
		limit string // hugetlb.2MB.max of the cgroup; empty: no file
		want  int64
		err   string
	}{
		"no pools":             {fstest.MapFS{}, "", 0, ""},
		"limit of the cgroup":  {pool("8", "0"), "4194304\n", 4 << 20, ""},
		"no limit":             {pool("8", "2"), "max\n", 20 << 20, ""},
		"no controller":        {pool("8", "2"), "", 20 << 20, ""},
		"pool without end":     {pool("1", "18446744073709551615"), "", math.MaxInt64, ""},
		"huge pool":            {pool("0", "9223372036854775807"), "", math.MaxInt64, ""},
		"limit is unreadable":  {pool("8", "0"), "many", 0, `hugetlb.2MB.max of cgroup /pod`},
		"pool is unreadable":   {pool("many", "0"), "", 0, "nr_hugepages of hugepages-2048kB"},
		"unknown name of pool": {fstest.MapFS{"x/y": {}}, "", 0, `pool of huge pages "x"`},
	} {
		kernel := lifecycletest.NewKernel()
		kernel.Write("/pod", "memory.max", "max")
		if c.limit != "" {
			kernel.Write("/pod", "hugetlb.2MB.max", c.limit)
		}
		got, err := host.HugePageLimit(kernel, c.pools, "/pod")
		if got != c.want || (err == nil) != (c.err == "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %d, %v, want %d, error %q", name, got, err, c.want, c.err)
		}
	}
}

func TestHugePageLimitReadsEachSize(t *testing.T) {
	kernel, pools := lifecycletest.NewKernel(), fstest.MapFS{}
	for size, name := range map[string]string{"64": "64KB", "2048": "2MB", "1048576": "1GB"} {
		dir := "hugepages-" + size + "kB/"
		pools[dir+"nr_hugepages"] = &fstest.MapFile{Data: []byte("1")}
		pools[dir+"nr_overcommit_hugepages"] = &fstest.MapFile{Data: []byte("0")}
		kernel.Write("/pod", "hugetlb."+name+".max", "1073741824")
	}
	if got, err := host.HugePageLimit(kernel, pools, "/pod"); got != 3<<30 || err != nil {
		t.Errorf("limit %d, %v, want 3Gi", got, err)
	}
}
