package api

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// normalised holds values for each file, with their normalised form.
func normalised() map[string]map[string]string {
	bytes := map[string]string{"9Gi": "9663676416", "1.5Gi": "1610612736", "1048576": "1048576",
		"500M": "500000000", "max": "max"}
	zeroBytes := map[string]string{"0": "0", "1": "1", "4Ki": "4096", "max": "max"}
	flags := map[string]string{"0": "0", "1": "1"}
	return map[string]map[string]string{
		"cpu.idle": flags,
		"cpu.max": {"max": "max 100000", "150000": "150000 100000",
			"150000 50000": "150000 50000", "max 1000": "max 1000", "1000 1000000": "1000 1000000"},
		"cpu.max.burst": {"0": "0", "50000": "50000"},
		"cpu.weight":    {"1": "1", "100": "100", "10000": "10000"},
		"cpuset.cpus": {"0": "0", "0-3,8": "0-3,8", "8,0-1,2-3": "0-3,8", "3,3,3": "3",
			"0-8191": "0-8191", "1,2": "1-2"},
		"cpuset.mems": {"0": "0", "0,1": "0-1", "1023": "1023"},
		"io.latency":  {"8:16 target=75000": "8:16 target=75000"},
		"io.max": {"8:16 wiops=120 rbps=1Mi": "8:16 rbps=1048576 wiops=120",
			"259:0 rbps=max wbps=1048576": "259:0 rbps=max wbps=1048576"},
		"io.weight": {"100": "default 100", "default 100": "default 100",
			"8:16 10000": "8:16 10000"},
		"memory.high":            bytes,
		"memory.low":             zeroBytes,
		"memory.min":             zeroBytes,
		"memory.oom.group":       flags,
		"memory.swap.high":       zeroBytes,
		"memory.swap.max":        zeroBytes,
		"memory.zswap.max":       zeroBytes,
		"memory.zswap.writeback": flags,
		"misc.max": {"sev 10": "sev 10", "sev_es max": "sev_es max",
			"tdx 0": "tdx 0"},
		"pids.max": {"1": "1", "4194304": "4194304", "max": "max"},
		"rdma.max": {
			"mlx5_0 hca_object=2000 hca_handle=2": "mlx5_0 hca_handle=2 hca_object=2000",
			"mlx4_0 hca_handle=max":               "mlx4_0 hca_handle=max"},
		"hugetlb.2MB.max":      {"0": "0", "4Mi": "4194304", "max": "max"},
		"hugetlb.1GB.rsvd.max": {"8Gi": "8589934592"},
		"hugetlb.64KB.max":     {"64Ki": "65536"},
	}
}

// refused holds values for each file that the kernel would refuse or misread. Every file refuses
// hostileValues, too.
func refused() map[string][]string {
	bytes := []string{"1.5", "8Ei", "4Gb", "4g", "MAX", "unlimited"}
	return map[string][]string{
		"cpu.idle": {"2", "true", "00", "01", "max"},
		"cpu.max": {"999", "999 100000", "150000 999", "150000 1000001", "max max",
			"150000 100000 1", "150000  100000", "17592186044416", "150%"},
		"cpu.max.burst": {"max", "17592186044416", "1.5"},
		"cpu.weight":    {"0", "10001", "max", "1.5"},
		"cpuset.cpus": {"8192", "0-8192", "3-1", "0-", "-3", "0,,1", ",0", "0,", "0, 1",
			"all", "0-10:2/4", "00", "0--1", "0-99999999999", "max"},
		"cpuset.mems": {"1024", "0-1024"},
		"io.latency": {"8:16", "8:16 target=0", "8:16 target=max", "8:16 target=75ms",
			"8:16 target=1 target=1", "8:16 target=9223372036854775807", "target=1"},
		"io.max": {"8:16", "8:16 ", "8:16 rbps=0", "8:16 rbps=1", "8:16 rbps=1 ",
			"8:16  rbps=1Mi", "8:16 rbps=1Mi rbps=1Mi", "8:16 riops=1k", "8:16 riops=4294967295",
			"sda rbps=1Mi", "8 rbps=1Mi", "08:16 rbps=1Mi", "8:16 xbps=1Mi",
			"8:16 rbps=1Mi\n8:32 rbps=1Mi", "8:16 rbps", "8:16 =1"},
		"io.weight": {"0", "10001", "default", "default 0", "default max", "sda 100",
			"8:16", "8:16 default", "default 100 200", "8:16  100"},
		"memory.high":            append([]string{"0", "1", "4Ki", "65535"}, bytes...),
		"memory.low":             bytes,
		"memory.min":             bytes,
		"memory.oom.group":       {"2", "max"},
		"memory.swap.high":       bytes,
		"memory.swap.max":        bytes,
		"memory.zswap.max":       bytes,
		"memory.zswap.writeback": {"2"},
		"misc.max": {"sev", "10", "sev 1.5", "SEV 10", "sev 10 20", "sev  10",
			"sev=10", "sev 0x10"},
		"pids.max": {"0", "4194305", "1k", "1.5"},
		"rdma.max": {"mlx5_0", "mlx5_0 hca_handle", "mlx5_0 hca_handle=1k",
			"mlx5_0 hca_handle=2147483647", "mlx5_0 qp=1", "../x hca_handle=1",
			"mlx5_0 hca_handle=1 hca_handle=1"},
		"hugetlb.2MB.max":      append([]string{"1Mi", "2097153", "1"}, bytes...),
		"hugetlb.1GB.rsvd.max": {"1Mi", "512Mi"},
		"hugetlb.64KB.max":     {"4Ki"},
	}
}

func hostileValues() []string {
	return []string{
		"", " ", "\n", "-1", "+1", " 1", "1 ", "1\n", "1e30", "0x1", "1_0", "٣", "\xff", "1\x00",
		"max ", "9223372036854775808",
		"../../memory.max", "1\n1", strings.Repeat("9", 4096), strings.Repeat("0-8191,", 100000),
	}
}

func TestNormalize(t *testing.T) {
	for name, values := range normalised() {
		file := lookup(t, name)
		for in, want := range values {
			if got, err := file.Normalize(in); err != nil || got != want {
				t.Errorf("%s: Normalize(%q) = %q, %v, want %q", name, in, got, err, want)
			}
		}
	}
}

func TestNormalizeRefuses(t *testing.T) {
	for name, values := range refused() {
		file := lookup(t, name)
		for _, in := range append(values, hostileValues()...) {
			got, err := file.Normalize(in)
			checkRefused(t, in, got, err)
			if err != nil && !strings.Contains(err.Error(), file.Allowed()) {
				t.Errorf("%s: Normalize(%.40q): %v: lacks the allowed range", name, in, err)
			}
		}
	}
}

func TestCgroupTablesAreComplete(t *testing.T) {
	for _, name := range CgroupFiles() {
		name = strings.ReplaceAll(name, "<size>", "2MB")
		if name == "hugetlb.2MB.rsvd.max" {
			name = "hugetlb.1GB.rsvd.max"
		}
		if normalised()[name] == nil || refused()[name] == nil {
			t.Errorf("%s has no row in the tables", name)
		}
	}
}

func lookup(t *testing.T, name string) CgroupFile {
	t.Helper()
	file, ok := LookupCgroupFile(name)
	if !ok || file.Name != name || file.Allowed() == "" {
		t.Fatalf("LookupCgroupFile(%q) = %+v, %v", name, file, ok)
	}
	return file
}

func TestLookupCgroupFileMarks(t *testing.T) {
	var kubelet, protection []string
	for _, name := range CgroupFiles() {
		file, _ := LookupCgroupFile(name)
		if file.KubeletOwned {
			kubelet = append(kubelet, name)
		}
		if file.Protection {
			protection = append(protection, name)
		}
	}
	if want := []string{"cpu.max", "cpu.weight", "cpuset.cpus", "cpuset.mems"}; !slices.Equal(
		kubelet, want) {
		t.Errorf("kubelet owns %v, want %v", kubelet, want)
	}
	if want := []string{"memory.low", "memory.min"}; !slices.Equal(protection, want) {
		t.Errorf("protections are %v, want %v", protection, want)
	}
}

func TestCheckCgroupFile(t *testing.T) {
	for _, name := range []string{
		"", "memory", "Memory.high", "memory.high ", "memory.current", "memory.reclaim",
		"cgroup.procs", "cgroup.kill", "cpu.weight.nice",
		"../memory.high", "memory/high", "cpuset.cpus.partition", "io.cost.qos",
		"hugetlb.<size>.max",
		"hugetlb.2M.max", "hugetlb.3MB.max", "hugetlb.1024MB.max", "hugetlb.0MB.max",
		"hugetlb.02MB.max", "hugetlb.2MB.current", "hugetlb.2TB.max", "hugetlb..max",
	} {
		err := CheckCgroupFile(name)
		if err == nil || !strings.Contains(err.Error(), "want one of cpu.idle, cpu.max,") {
			t.Errorf("CheckCgroupFile(%q) = %v, want the list of files", name, err)
		}
	}
	if err := CheckCgroupFile("memory.max"); err == nil ||
		!strings.Contains(err.Error(), "belongs to kubelet") {
		t.Errorf("CheckCgroupFile(memory.max) = %v, want the reason", err)
	}
	if err := CheckCgroupFile("hugetlb.2MB.max"); err != nil {
		t.Error(err)
	}
}

func TestShows(t *testing.T) {
	for _, c := range []struct {
		file, content, value string
		want                 bool
	}{
		{"memory.high", "9663676416\n", "9663676416", true},
		{"memory.high", "9663676415\n", "9663676416", false},
		{"memory.high", "max\n", "9663676416", false},
		{"memory.high", "max\n", "max", true},
		{"memory.high", "max\n", "9223372036854775807", true},
		{"memory.high", "", "9663676416", false},
		{"cpu.max", "max 100000\n", "max 100000", true},
		{"cpu.max", "150000 100000\n", "max 100000", false},
		{"cpuset.cpus", "0-3,8\n", "0-3,8", true},
		{"cpuset.cpus", "\n", "0-3,8", false},
		{"io.weight", "default 100\n8:16 200\n", "8:16 200", true},
		{"io.weight", "default 100\n8:16 200\n", "default 100", true},
		{"io.weight", "default 100\n", "8:16 100", false},
		{"io.weight", "default 1000\n", "default 100", false},
		{"io.max", "8:0 rbps=max wbps=max riops=max wiops=1\n8:16 rbps=1048576 wbps=max " +
			"riops=max wiops=120\n", "8:16 rbps=1048576 wiops=120", true},
		{"io.max", "8:16 rbps=1048576 wbps=max riops=max wiops=120\n", "8:16 rbps=max", false},
		{"io.max", "8:160 rbps=1048576\n", "8:16 rbps=1048576", false},
		{"io.max", "", "8:16 rbps=max wiops=max", true},
		{"io.max", "", "8:16 rbps=max wiops=5", false},
		{"rdma.max", "mlx5_0 hca_handle=2 hca_object=max qp=max\n",
			"mlx5_0 hca_handle=2 hca_object=max", true},
		{"misc.max", "sev max\nsev_es 10\n", "sev_es 10", true},
		{"misc.max", "sev max\n", "sev_es 10", false},
		{"misc.max", "", "sev_es max", false},
		{"pids.max", "max\n", "100", false},
	} {
		if got := lookup(t, c.file).Shows(c.content, c.value); got != c.want {
			t.Errorf("%s: Shows(%q, %q) = %v", c.file, c.content, c.value, got)
		}
	}
}

func TestRoundToPages(t *testing.T) {
	for _, c := range []struct {
		value string
		page  int64
		want  string
	}{
		{"0", 4096, "0"}, {"4095", 4096, "0"}, {"4096", 4096, "4096"},
		{"500000000", 4096, "499998720"}, {"500000000", 65536, "499974144"},
		{"max", 4096, "max"}, {"9223372036854775807", 4096, "max"}, {"9223372036854771712", 4096,
			"max"}, {"9223372036854767616", 4096, "9223372036854767616"},
	} {
		if got := roundToPages(c.value, c.page); got != c.want {
			t.Errorf("roundToPages(%s, %d) = %s, want %s", c.value, c.page, got, c.want)
		}
	}
}

// FuzzCgroupFile checks that a normalised value stays the same when normalised again, fits one
// line, and is recognised in the kernel's output.
func FuzzCgroupFile(f *testing.F) {
	for name, values := range normalised() {
		for value := range values {
			f.Add(name, value)
		}
		for _, value := range refused()[name] {
			f.Add(name, value)
		}
	}
	for _, value := range hostileValues() {
		f.Add("cpuset.cpus", value)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		file, ok := LookupCgroupFile(name)
		if !ok {
			if CheckCgroupFile(name) == nil {
				t.Errorf("%q is unknown, and checks as known", name)
			}
			return
		}
		normal, err := file.Normalize(value)
		if err != nil {
			checkRefused(t, value, normal, err)
			return
		}
		if again, err := file.Normalize(normal); err != nil || again != normal {
			t.Errorf("%s: %q becomes %q becomes %q, %v", name, value, normal, again, err)
		}
		if normal == "" || strings.ContainsAny(normal, "\n\x00") || strings.TrimSpace(normal) !=
			normal || len(normal) > os.Getpagesize() && !strings.HasPrefix(name, "cpuset") {
			t.Errorf("%s: %q becomes %q", name, value, normal)
		}
		if shown := kernelShows(file, normal); !file.Shows(shown, normal) {
			t.Errorf("%s: does not recognise %q in %q", name, normal, shown)
		}
	})
}

// kernelShows returns the content of a file after a write of the value.
func kernelShows(file CgroupFile, value string) string {
	if _, ok := file.grammar.(byteLimit); ok {
		value = roundToPages(value, int64(os.Getpagesize()))
	}
	return value + "\n"
}
