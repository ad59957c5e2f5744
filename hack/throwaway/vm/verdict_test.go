package vm

import (
	"os"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

func TestVerdictIsKeptAndForgotten(t *testing.T) {
	store, err := cache.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Kernel: "/k", QEMU: "/q"}
	known, err := verdictOf(store, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := known.write(KVM); err != nil {
		t.Fatal(err)
	}
	// a boot that failed although the probe did not
	if err := recordKVMFailure(store, c); err != nil {
		t.Fatal(err)
	}
	if got, ok := known.read(); got != TCG || !ok {
		t.Errorf("got %q, %v, want TCG", got, ok)
	}
	if err := known.write(noAnswer); err != nil {
		t.Fatal(err)
	}
	if got, ok := known.read(); got != TCG || !ok {
		t.Errorf("after a probe that timed out: got %q, %v, want TCG", got, ok)
	}
	yesterday := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(string(known), yesterday, yesterday); err != nil {
		t.Fatal(err)
	}
	if got, ok := known.read(); ok {
		t.Errorf("a day after a probe that timed out: got %q", got)
	}
	if err := os.WriteFile(string(known), []byte("kv"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, ok := known.read(); ok {
		t.Errorf("half a verdict counts: %q", got)
	}
	if _, found, err := ForgetVerdicts(store); !found || err != nil {
		t.Errorf("forgetting: got %v, %v", found, err)
	}
	if _, ok := known.read(); ok {
		t.Error("the verdict is still there")
	}
}
