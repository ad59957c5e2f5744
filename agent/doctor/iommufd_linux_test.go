package doctor

import (
	"errors"
	"io/fs"
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
	pids, err := usersOf("1:5")
	if errors.Is(err, fs.ErrPermission) {
		t.Skip("missing: root, to see the descriptors of other processes")
	}
	if err != nil || !slices.Contains(pids, os.Getpid()) {
		t.Errorf("users of /dev/zero %v, %v, want this process, %d", pids, err, os.Getpid())
	}
	if pids, err := usersOf("1:99999"); err != nil || len(pids) > 0 {
		t.Errorf("users of a device that does not exist: %v, %v", pids, err)
	}
}
