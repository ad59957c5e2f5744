package host

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStartTime(t *testing.T) {
	const rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21"
	tests := map[string]struct {
		stat string
		want uint64
		ok   bool
	}{
		"plain":                 {"12 (cat) " + rest, 4711, true},
		"blank and parentheses": {"12 (a) S 1 2 (b) " + rest, 4711, true},
		"no name":               {"12 cat " + rest, 0, false},
		"too short":             {"12 (cat) S 1 2 3", 0, false},
		"negative start time":   {"12 (cat) " + strings.Replace(rest, "4711", "-1", 1), 0, false},
		"empty":                 {"", 0, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseStartTime(test.stat)
			if got != test.want || (err == nil) != test.ok {
				t.Errorf("parseStartTime(%q) = %d, %v, want %d", test.stat, got, err, test.want)
			}
		})
	}
}

// The parser finds the start time behind any process name.
func FuzzParseStartTime(f *testing.F) {
	for _, name := range []string{"cat", "a) S 1", "(", ") (", "\n", "x) R 1 2 3 4 5 6 7 8 9 10 " +
		"11 12 13 14 15 16 17 18 19 20"} {
		f.Add(name, uint64(99))
	}
	f.Fuzz(func(t *testing.T, name string, start uint64) {
		if len(name) > 15 { // TASK_COMM_LEN
			name = name[:15]
		}
		stat := fmt.Sprintf("7 (%s) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 %d 20 21",
			name, start)
		if got, err := parseStartTime(stat); err != nil || got != start {
			t.Errorf("parseStartTime(%q) = %d, %v, want %d", stat, got, err, start)
		}
	})
}

func TestParseCgroup(t *testing.T) {
	tests := map[string]struct {
		content, want string
		gone, ok      bool
	}{
		"cgroup v2":     {"0::/kubepods.slice/a.scope\n", "/kubepods.slice/a.scope", false, true},
		"both versions": {"4:memory:/old\n1:name=systemd:/x\n0::/new\n", "/new", false, true},
		"colons in it": {"0::/kubepods-x.slice:cri-containerd:ab\n",
			"/kubepods-x.slice:cri-containerd:ab", false, true},
		"other root":     {"0::/../../pod\n", "/../../pod", false, true},
		"removed":        {"0::/a (deleted)\n", "", true, false},
		"version 1 only": {"4:memory:/old\n", "", false, false},
		"empty":          {"", "", false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseCgroup(test.content)
			if got != test.want || (err == nil) != test.ok || errors.Is(err, ErrGone) != test.gone {
				t.Errorf("parseCgroup(%q) = %q, %v, want %q", test.content, got, err, test.want)
			}
		})
	}
}

func TestParsePIDs(t *testing.T) {
	got, err := parsePIDs("12\n0\n7\n")
	if diff := cmp.Diff([]int{12, 7}, got); diff != "" || err != nil {
		t.Errorf("parsePIDs: %v (-want +got):\n%s", err, diff)
	}
	if _, err := parsePIDs("12\nx\n"); err == nil {
		t.Error("no error for an invalid pid")
	}
}

func TestContainerCgroup(t *testing.T) {
	tests := map[string]struct {
		path, id, want string
	}{
		"systemd": {"/kubepods.slice/kubepods-pod1.slice/cri-containerd-abc.scope",
			"abc", "/kubepods.slice/kubepods-pod1.slice/cri-containerd-abc.scope"},
		"cgroupfs": {"/kubepods/pod1/abc", "abc", "/kubepods/pod1/abc"},
		"crun's own child": {"/kubepods/pod1/crio-abc.scope/container", "abc",
			"/kubepods/pod1/crio-abc.scope"},
		"made by libvirt": {"/kubepods/pod1/abc/machine/qemu/vcpu0", "abc",
			"/kubepods/pod1/abc"},
		"named like it inside": {"/kubepods/pod1/abc/abc/x", "abc", "/kubepods/pod1/abc"},
		"another container":    {"/kubepods/pod1/def", "abc", ""},
		"no ID":                {"/kubepods/pod1/abc", "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := ContainerCgroup(test.path, test.id)
			if got != test.want || ok != (test.want != "") {
				t.Errorf("containerCgroup(%q, %q) = %q, %v, want %q", test.path, test.id, got,
					ok, test.want)
			}
		})
	}
}

func TestLimitString(t *testing.T) {
	for limit, want := range map[Limit]string{
		0: "0", 65536: "64Ki", 5 << 30: "5Gi", 1001: "1001", Unlimited: "unlimited",
		1 << 63: "9223372036854775808",
	} {
		if got := limit.String(); got != want {
			t.Errorf("Limit(%d) = %q, want %q", uint64(limit), got, want)
		}
	}
}

func TestParseLocked(t *testing.T) {
	for name, c := range map[string]struct {
		status string
		want   uint64
		ok     bool
	}{
		"both":           {"Name:\tqemu\nVmLck:\t    64 kB\nVmPin:\t     8 kB\n", 64 << 10, true},
		"more pinned":    {"VmLck:\t8 kB\nVmPin:\t64 kB\n", 64 << 10, true},
		"no pinned":      {"VmLck:\t0 kB\n", 0, true},
		"a zombie":       {"Name:\tqemu\nState:\tZ (zombie)\n", 0, false},
		"a name like it": {"Name:\tVmLck:\nVmLck:\t4 kB\n", 4 << 10, true},
		"more than fits": {"VmLck:\t18446744073709551615 kB\n", 0, false},
		"another unit":   {"VmLck:\t4 MB\n", 0, false},
		"no lines":       {"", 0, false},
	} {
		got, err := parseLocked(c.status)
		if got != c.want || (err == nil) != c.ok || !c.ok && !errors.Is(err, ErrGone) {
			t.Errorf("%s: %d, %v, want %d", name, got, err, c.want)
		}
	}
}
