package headroom_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mooring-vm/mooring/shim/headroom"
)

func TestReadHost(t *testing.T) {
	const online = "sys/devices/system/cpu/online"
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	meminfo := file("MemTotal:       16316412 kB\nMemFree: 1 kB\n")
	for _, c := range []struct {
		files fstest.MapFS
		want  headroom.Host
		err   string
	}{
		{
			fstest.MapFS{"proc/meminfo": meminfo, online: file("0-7,16\n")},
			headroom.Host{Memory: 15933, CPUs: 9},
			"",
		},
		{
			fstest.MapFS{"proc/meminfo": file("MemFree: 1 kB\n"), online: file("0\n")},
			headroom.Host{},
			"MemTotal is missing",
		},
		{fstest.MapFS{"proc/meminfo": meminfo}, headroom.Host{}, "the host's CPUs: "},
		{
			fstest.MapFS{"proc/meminfo": meminfo, online: file("all\n")},
			headroom.Host{},
			"the host's CPUs: ",
		},
		{fstest.MapFS{online: file("0\n")}, headroom.Host{}, "the host's memory: "},
	} {
		got, err := headroom.ReadHost(c.files)
		if got != c.want || c.err == "" && err != nil ||
			c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("got %+v, %v, want %+v and %q", got, err, c.want, c.err)
		}
	}
}

func TestReadThisHost(t *testing.T) {
	if got, err := headroom.ReadHost(os.DirFS("/")); err != nil || got.Memory < 16 || got.CPUs < 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}
