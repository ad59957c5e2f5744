package vm

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

// Accelerator is a value of QEMU's -accel.
type Accelerator string

// The accelerators that a node runs on.
const (
	TCG Accelerator = "tcg,thread=multi,tb-size=1024"
	KVM Accelerator = "kvm,kernel-irqchip=split" // split: for the IOMMU's interrupt remapping
)

func (a Accelerator) cpu() string {
	if a == KVM {
		return "host"
	}
	// Starts in four fifths of the time that "max" takes, whose newer instructions
	// are slow to emulate, but for AES, which the command channel uses.
	return "Westmere"
}

// String is the accelerator's name without its options.
func (a Accelerator) String() string {
	name, _, _ := strings.Cut(string(a), ",")
	return name
}

// probeTimeout is far more than a kernel needs under a usable KVM to find out
// that it has no disk.
const probeTimeout = 5 * time.Second

// Probe returns KVM where the kernel boots under it until it looks for its
// disk, and TCG otherwise. That /dev/kvm exists proves little: there are
// machines where it opens and every guest hangs. The verdict is kept in store
// until the machine boots again, but for an hour where the kernel did not get
// that far in time: the machine may only have been busy.
func Probe(ctx context.Context, store *cache.Store, c Config) (Accelerator, error) {
	f, err := os.OpenFile(kvmDevice, os.O_RDWR, 0)
	if err != nil {
		return TCG, nil // no KVM, or none for this user
	}
	_ = f.Close()
	known, err := verdictOf(store, c)
	if err != nil {
		return "", err
	}
	if v, ok := known.read(); ok {
		return v, nil
	}
	probing, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	switch {
	case bootsWithoutDisk(probing, c, KVM):
		return KVM, known.write(KVM)
	case ctx.Err() != nil:
		return "", fmt.Errorf("probing for KVM: %w", context.Cause(ctx))
	case probing.Err() != nil:
		return TCG, known.write(noAnswer)
	default:
		return TCG, known.write(TCG)
	}
}

const kvmDevice = "/dev/kvm"

// Boots reports whether the image's kernel boots under a until it looks for its
// disk, before ctx ends.
func Boots(ctx context.Context, img *image.Image, a Accelerator) bool {
	return bootsWithoutDisk(ctx, Config{Kernel: img.Kernel, QEMU: img.QEMU}, a)
}

func bootsWithoutDisk(ctx context.Context, c Config, a Accelerator) bool {
	c.Accelerator, c.Console, c.CPUs, c.MemoryMiB = a, io.Discard, 1, 512
	seen := make(chan struct{})
	once := sync.OnceFunc(func() { close(seen) })
	args := append(c.machine(), "-append", "console=ttyS0 panic=-1")
	p, err := start(c, args, func(line string) {
		if strings.Contains(line, "Unable to mount root fs") {
			once()
		}
	})
	if err != nil {
		return false
	}
	defer p.stop()
	select {
	case <-seen:
		return true
	case <-p.exited: // its output was read to the end before
		select {
		case <-seen:
			return true
		default:
			return false
		}
	case <-ctx.Done():
		return false
	}
}
