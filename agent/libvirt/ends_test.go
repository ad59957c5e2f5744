package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api/vmfile"
)

// powerOff is a disk with a boot sector. Its code powers a guest of the machine type pc off by ACPI: it writes
// SLP_EN to PM1a_CNT, port 0x604.
func powerOff() []byte {
	disk := make([]byte, 1<<20)
	copy(disk, "\xba\x04\x06\xb8\x00\x20\xef\xf4\xeb\xfd") // mov dx, mov ax, out, hlt, jmp
	copy(disk[510:], "\x55\xaa")
	return disk
}

// follow sends each end of a domain to the channel, until the test ends.
func follow(t *testing.T, d Daemon) <-chan string {
	t.Helper()
	ends := make(chan string, 10)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = d.FollowEnds(ctx, func(domain string, reason vmfile.Reason) {
				ends <- domain + " " + string(reason)
			})
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return ends
}

// kill kills the process of the only domain.
func (r ownLibvirt) kill(t *testing.T) {
	t.Helper()
	all, err := r.List()
	if err != nil || len(all) != 1 {
		t.Fatalf("List = %+v, %v", all, err)
	}
	if err := unix.Kill(all[0].PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// TestRealEnds ends a domain by its guest, by libvirt, and by a signal. libvirt reports each end by
// an event, and remembers the reason for a defined domain only.
func TestRealEnds(t *testing.T) {
	r := startLibvirt(t)
	disk := filepath.Join(r.Home, "disk")
	write(t, r.Home, "disk", powerOff())
	guest := strings.Replace(realDomain, "<memballoon", fmt.Sprintf(
		`<disk type='file'><driver name='qemu' type='raw'/><source file='%s'/>`+
			`<target dev='vda' bus='virtio'/></disk><memballoon`, disk), 1)
	write(t, r.Home, "guest.xml", []byte(guest))
	t.Cleanup(func() {
		all, _ := r.List()
		for _, d := range all { // after a failure
			_ = unix.Kill(d.PID, unix.SIGKILL)
		}
	})
	ends := follow(t, r.Daemon)
	eventually(t, "an event", func() bool { // the connection needs a moment
		r.Must(t, "create", filepath.Join(r.Home, "vm.xml"))
		r.Destroy(t, "vm-1")
		select {
		case end := <-ends:
			return end == vm1.UUID+" destroyed"
		case <-time.After(100 * time.Millisecond):
			return false
		}
	})
	cases := []struct {
		xml  string
		end  func()
		want vmfile.Reason
	}{
		{"guest.xml", func() {}, vmfile.Shutdown},
		{"vm.xml", func() { r.Destroy(t, "vm-1") }, vmfile.Destroyed},
		{"vm.xml", func() { r.kill(t) }, vmfile.Crashed},
	}
	for _, c := range cases {
		for _, defined := range []bool{false, true} {
			file := filepath.Join(r.Home, c.xml)
			if defined {
				r.Must(t, "define", file)
				r.Must(t, "start", "vm-1")
			} else {
				r.Must(t, "create", file)
			}
			c.end()
			select {
			case end := <-ends:
				if end != vm1.UUID+" "+string(c.want) {
					t.Errorf("%s, defined %t: %s, want %s", c.xml, defined, end, c.want)
				}
			case <-time.After(time.Minute):
				t.Fatalf("%s, defined %t: no event", c.xml, defined)
			}
			reason, err := r.WhyInactive(t.Context(), vm1.UUID)
			if defined {
				r.Must(t, "undefine", "vm-1")
				if reason != c.want || err != nil {
					t.Errorf("%s: remembered %q, %v, want %s", c.xml, reason, err, c.want)
				}
			} else if !errors.Is(err, ErrNoDomain) {
				t.Errorf("%s, transient: remembered %q, %v", c.xml, reason, err)
			}
		}
	}
	r.Must(t, "create", filepath.Join(r.Home, "vm.xml"))
	if reason, err := r.WhyInactive(t.Context(), vm1.UUID); reason != "" || err != nil {
		t.Errorf("a running domain has ended: %q, %v", reason, err)
	}
	r.Destroy(t, "vm-1")
}

func TestFollowEndsWithoutLibvirt(t *testing.T) {
	d := Daemon{filepath.Join(t.TempDir(), "none")}
	none := func(string, vmfile.Reason) { t.Error("a domain has ended") }
	if err := d.FollowEnds(t.Context(), none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := d.WhyInactive(t.Context(), "vm-1"); err == nil {
		t.Error("a name is no UUID")
	}
}
