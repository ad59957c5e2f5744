package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

// verdicts is the store's directory for verdicts about KVM.
const verdicts = "kvm"

// verdict is a file with the accelerator for a kernel and a QEMU. It is valid until this machine
// boots again.
type verdict string

func verdictOf(store *cache.Store, c Config) (verdict, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("probing for KVM: %w", err)
	}
	return verdict(store.Dir(verdicts, string(cache.KeyOf(string(boot), c.Kernel, c.QEMU))+
		".verdict")), nil
}

// noAnswer is the verdict after a time-out: guests hang, or this machine was busy. It is valid for
// an hour.
const (
	noAnswer         Accelerator = "no answer"
	noAnswerValidity             = time.Hour
)

func (v verdict) read() (Accelerator, bool) {
	b, err := os.ReadFile(string(v))
	if err != nil {
		return "", false
	}
	switch a := Accelerator(b); a {
	case KVM, TCG:
		return a, true
	case noAnswer:
		return TCG, v.age() < noAnswerValidity
	default:
		return "", false
	}
}

func (v verdict) age() time.Duration {
	info, err := os.Stat(string(v))
	if err != nil {
		return noAnswerValidity
	}
	return time.Since(info.ModTime())
}

func (v verdict) write(a Accelerator) error {
	if err := os.MkdirAll(filepath.Dir(string(v)), 0o755); err != nil {
		return fmt.Errorf("keeping the verdict about KVM: %w", err)
	}
	if err := os.WriteFile(string(v), []byte(a), 0o644); err != nil {
		return fmt.Errorf("keeping the verdict about KVM: %w", err)
	}
	return nil
}

// ForgetVerdicts removes all verdicts and reports whether there were any.
func ForgetVerdicts(store *cache.Store) (dir string, found bool, err error) {
	dir = store.Dir(verdicts)
	_, err = os.Stat(dir)
	return dir, err == nil, os.RemoveAll(dir)
}
