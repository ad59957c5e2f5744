package agent

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// programMemory returns the size and the resident part of the read-only mappings of this program.
func programMemory(t *testing.T) (size, resident int) {
	t.Helper()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	ours := false
	for line := range strings.Lines(string(smaps)) {
		fields := strings.Fields(line)
		if !strings.HasSuffix(fields[0], ":") {
			ours = fields[len(fields)-1] == program && !strings.Contains(fields[1], "w")
			continue
		}
		kib, err := strconv.Atoi(fields[min(1, len(fields)-1)])
		switch {
		case !ours || err != nil:
		case fields[0] == "Size:":
			size += kib
		case fields[0] == "Rss:":
			resident += kib
		}
	}
	return size, resident
}

// A program that has used all of its pages runs on with few of them.
func TestUnmapProgram(t *testing.T) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range unchangedMappings(string(smaps), program) {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start,
			unix.MADV_POPULATE_READ); errno != 0 {
			t.Skipf("needs Linux 5.14: %v", errno)
		}
	}
	size, before := programMemory(t)
	if size == 0 || before < size*9/10 {
		t.Fatalf("%d of %d KiB resident, want all of them", before, size)
	}
	if err := unmapProgram(); err != nil {
		t.Fatal(err)
	}
	if _, after := programMemory(t); after > size/2 {
		t.Errorf("%d of %d KiB still resident, want less than half", after, size)
	}
}

func TestUnchangedMappings(t *testing.T) {
	const smaps = "00400000-00500000 r-xp 00000000 08:01 7      /bin/agent\n" +
		"Size: 1024 kB\nRss: 1000 kB\nAnonymous:             0 kB\nVmFlags: rd ex mr\n" +
		"00500000-00600000 r--p 00100000 08:01 7      /bin/agent\nAnonymous:      4 kB\n" +
		"00600000-00700000 rw-p 00200000 08:01 7      /bin/agent\nAnonymous:      0 kB\n" +
		"00700000-00800000 r--p 00000000 08:01 8      /lib/libc.so\nAnonymous:      0 kB\n" +
		"00800000-00900000 r--p 00300000 08:01 7      /bin/agent\nAnonymous:      0 kB\n" +
		"c000000000-c000400000 rw-p 00000000 00:00 0\nAnonymous:      0 kB\n" +
		"x-y r--p 00000000 08:01 7 /bin/agent\nAnonymous:      0 kB\n"
	want := []mapping{{0x400000, 0x500000}, {0x800000, 0x900000}}
	if diff := cmp.Diff(want, unchangedMappings(smaps, "/bin/agent"),
		cmp.AllowUnexported(mapping{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
