package doctor

import (
	"fmt"
	"os"
	"slices"
	"testing"
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
	if pids, err := usersOf(dirs, "1:99999"); err != nil || len(pids) > 0 {
		t.Errorf("users of a device that does not exist: %v, %v", pids, err)
	}
}
