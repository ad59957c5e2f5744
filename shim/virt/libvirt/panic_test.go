//go:build cgo && libvirt_dlopen

package libvirt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
)

// panicROM is a firmware that reports a panic to QEMU's pvpanic device and halts.
func panicROM() []byte {
	rom := make([]byte, 64<<10)
	copy(rom[len(rom)-16:], []byte{ // the reset vector of x86
		0xba, 0x05, 0x05, // mov dx, 0x505
		0xb0, 0x01, // mov al, 1
		0xee,       // out dx, al
		0xf4,       // hlt
		0xeb, 0xfd, // jmp to hlt
	})
	return rom
}

// With on_crash=preserve a panicked guest keeps its QEMU, so it has not ended.
func TestPanickedGuestStays(t *testing.T) {
	d := libvirttest.Start(t, true)
	c := open(t, d.URI, Options{})
	rom := filepath.Join(d.Dir, "panic.rom")
	if err := os.WriteFile(rom, panicROM(), 0o644); err != nil {
		t.Fatal(err)
	}
	d.CreateTransient(t, strings.NewReplacer(
		"</os>", "<loader readonly='yes' type='rom'>"+rom+"</loader></os>",
		"<on_crash>destroy", "<on_crash>preserve", "</devices>", "<panic model='isa'/></devices>",
	).Replace(libvirttest.VM{}.XML(t)))
	v := find(t, c, libvirttest.Name)
	s := awaitState(
		t, v, "it has panicked",
		func(s virt.State, _ error) bool { return s.Phase == virt.Panicked || s.Phase.Ended() },
	)
	p, err := v.Phase(t.Context())
	if s.Phase.Ended() || p != virt.Panicked || err != nil {
		t.Fatalf("it is %s, and %s, %v", s.Phase, p, err)
	}
	must(t, v.Destroy(t.Context()))
	awaitState(
		t, v, "it is gone",
		func(_ virt.State, err error) bool { return errors.Is(err, virt.ErrNoDomain) },
	)
}
