package explain

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// limitsLine equals the line of this machine's kernel, except for trailing blanks.
func TestLimitsLine(t *testing.T) {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &own); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(content), "\nMax locked memory")
	shown, _, _ := strings.Cut("Max locked memory"+rest, "\n")
	if got := limitsLine(host.Rlimit{Soft: host.Limit(own.Cur), Hard: host.Limit(own.Max)}); got !=
		strings.TrimRight(shown, " ") {
		t.Errorf("got\n%q, the kernel shows\n%q", got, shown)
	}
	want := "Max locked memory         1024                 unlimited            bytes"
	if got := limitsLine(host.Rlimit{Soft: 1024, Hard: host.Unlimited}); got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

// The guard accepts the explained content as the value.
func TestCgroupContent(t *testing.T) {
	page := int64(os.Getpagesize())
	for _, test := range []struct{ file, value, want string }{
		{"memory.high", "9Gi", "9663676416"},
		{"memory.high", strconv.FormatInt(100*page+1, 10), strconv.FormatInt(100*page, 10)},
		{"memory.high", "max", "max"},
		{"memory.swap.max", strconv.FormatInt(1<<63-1, 10), "max"},
		{"memory.swap.max", "1", "0"},
		{"cpu.max", "150000", "150000 100000"},
		{"cpuset.cpus", "8,0-3", "0-3,8"},
		{"io.max", "8:16 wiops=500 rbps=100Mi", "8:16 rbps=104857600 wbps=max riops=max wiops=500"},
		{"io.max", "8:16 rbps=max", ""},
		{"io.weight", "100", "default 100"},
		{"io.weight", "8:16 200", "default 100\n8:16 200"},
		{"io.latency", "8:16 target=75000", "8:16 target=75000"},
		{"rdma.max", "mlx5_0 hca_object=2000", "mlx5_0 hca_handle=max hca_object=2000"},
		{"rdma.max", "mlx5_0 hca_object=max", "mlx5_0 hca_handle=max hca_object=max"},
		{"misc.max", "sev 10", "sev 10"},
		{"hugetlb.2MB.max", "8Gi", "8589934592"},
		{"pids.max", "4096", "4096"},
	} {
		file, _ := api.LookupCgroupFile(test.file)
		value, err := file.Normalize(test.value)
		if err != nil {
			t.Errorf("%s %s: %v", test.file, test.value, err)
			continue
		}
		got := cgroupContent(api.CgroupSetting{File: test.file, Value: value})
		if got != test.want || !file.Shows(got, value) {
			t.Errorf("%s %s: got %q, want %q, taken for the value: %t", test.file, test.value, got,
				test.want, file.Shows(got, value))
		}
	}
}
