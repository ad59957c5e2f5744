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

// Accelerators of a node.
const (
	TCG Accelerator = "tcg,thread=multi,tb-size=1024"
	KVM Accelerator = "kvm,kernel-irqchip=split" // split: for the IOMMU's interrupt remapping
)

func (a Accelerator) cpu() string {
	if a == KVM {
		return "host"
	}
	// This model starts in four fifths of the time of "max", whose newer instructions are slow to
	// emulate. It has AES, which the command channel uses.
	return "Westmere"
}

// String returns the name of the accelerator without its options.
func (a Accelerator) String() string {
	name, _, _ := strings.Cut(string(a), ",")
	return name
}

// probeTimeout bounds the probe. Under a working KVM, a kernel needs far less time to find that it
// has no disk.
const probeTimeout = 5 * time.Second

// Probe returns KVM if the kernel boots under it until it looks for its disk, and TCG otherwise. An
// existing /dev/kvm proves little: on some machines it opens and every guest hangs. store keeps the
// verdict until the next boot of this machine. A time-out counts for an hour only, because the
// machine may have been busy.
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

// Boots reports whether the image's kernel, booted under a, looks for its disk before ctx ends.
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
	case <-p.exited: // readConsole has read all output before
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
