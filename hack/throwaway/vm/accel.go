package vm

import (
	"context"
	"io"
	"os"
	"strings"
	"time"
)

// Accelerator is a value of QEMU's -accel.
type Accelerator string

// The accelerators that a node runs on.
const (
	TCG Accelerator = "tcg,thread=multi,tb-size=1024"
	KVM Accelerator = "kvm"
)

func (a Accelerator) cpu() string {
	if a == KVM {
		return "host"
	}
	return "max"
}

// String is the accelerator's name without its options.
func (a Accelerator) String() string {
	name, _, _ := strings.Cut(string(a), ",")
	return name
}

// probeTimeout is far more than a kernel needs under a usable KVM to find out
// that it has no disk.
const probeTimeout = 10 * time.Second

// Probe returns KVM where the kernel boots under it until it looks for its
// disk, and TCG otherwise. That /dev/kvm exists proves little: there are
// machines where it opens and every guest fails.
func Probe(ctx context.Context, c Config) Accelerator {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return TCG
	}
	_ = f.Close()
	c.Accelerator = KVM
	if bootsWithoutDisk(ctx, c) {
		return KVM
	}
	return TCG
}

func bootsWithoutDisk(ctx context.Context, c Config) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	c.Console = io.Discard
	seen := make(chan struct{}, 1)
	args := append(c.machine(), "-append", "console=ttyS0 panic=-1")
	p, err := start(c, args, func(line string) {
		if strings.Contains(line, "Unable to mount root fs") {
			select {
			case seen <- struct{}{}:
			default:
			}
		}
	})
	if err != nil {
		return false
	}
	defer p.stop()
	select {
	case <-seen:
		return true
	case <-p.exited:
		return len(seen) > 0
	case <-ctx.Done():
		return false
	}
}
