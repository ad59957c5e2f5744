package host

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/fstest"
)

// The kernel's number of an open device identifies its users, whatever the path of its node.
func TestUsersOfDevice(t *testing.T) {
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer zero.Close()
	dirs := []string{fmt.Sprintf("/proc/%d/fd", os.Getpid()), "/proc/0/fd"} // no process has pid 0
	pids, err := usersOf(dirs, "1:5")
	if err != nil || !slices.Equal(pids, []int{os.Getpid()}) {
		t.Errorf("users of /dev/zero %v, %v, want this process, %d", pids, err, os.Getpid())
	}
	number, err := numberOf(os.DirFS("/sys/class/mem/zero"))
	if err != nil || number != "1:5" {
		t.Errorf("number of /dev/zero %q, %v, want 1:5", number, err)
	}
	if pids, err := usersOf(dirs, "1:99999"); err != nil || len(pids) > 0 {
		t.Errorf("users of a device that does not exist: %v, %v", pids, err)
	}
}

// A kernel without iommufd answers for each process, and no process needs rights for that.
func TestNoIOMMUFD(t *testing.T) {
	number, err := numberOf(fstest.MapFS{})
	if number != "" || err != nil {
		t.Errorf("number %q, %v, want none", number, err)
	}
}

// Descriptors of a process with another identity are unknown, and never none.
func TestHasIOMMUFD(t *testing.T) {
	k := &LinuxKernel{proc: "/proc"}
	pid := sleeper(t)
	start, err := k.startTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	open, err := k.hasDevice(ProcessAt(pid, start), "1:99999")
	if open || err != nil {
		t.Errorf("device that does not exist: %t, %v", open, err)
	}
	if _, err := k.hasDevice(ProcessAt(pid, start+1), "1:99999"); !errors.Is(err, ErrGone) {
		t.Errorf("reused pid: %v, want ErrGone", err)
	}
}
