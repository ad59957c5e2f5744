package kubevirt_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/memlock"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
)

// testdata/lock.tsv has virt-handler's limits by KubeVirt's own code: at the start and, where it
// differs, for the running VM.
func TestOwnIsKubeVirts(t *testing.T) {
	vms := vmis(t)
	columns, rows := golden(t, "lock.tsv")
	compared, set := 0, 0
	for _, row := range rows {
		vm, ok := vms[row[0]]
		if !ok {
			t.Errorf("testdata/vmis.yaml lacks %s", row[0])
			continue
		}
		for i, tags := range columns {
			for _, tag := range tags {
				compared++
				if row[2+i] != "none" {
					set++
				}
				if got := lockText(t, vm, tag, row[1]); got != row[2+i] {
					t.Errorf("%s, %s, ratio %s: %s, and KubeVirt sets %s", tag, row[0], row[1],
						got, row[2+i])
				}
			}
		}
	}
	if compared < 40*len(kubevirt.Releases()) || set < 20*len(kubevirt.Releases()) {
		t.Errorf("compared %d locks, of which %d are set", compared, set)
	}
}

// lockText returns a cell of the table. "-" stands for a ratio that the release does not know.
func lockText(t *testing.T, vm kubevirt.VM, tag, ratio string) string {
	t.Helper()
	version, r := inputs(t, tag, ratio)
	var cells []string
	for _, p := range []kubevirt.Process{kubevirt.Daemon, kubevirt.QEMU} {
		own, err := kubevirt.Own(vm, version, r, p)
		switch {
		case err != nil && strings.Contains(err.Error(), "knows no overhead ratio"):
			return "-"
		case err != nil:
			return err.Error()
		}
		cells = append(cells, cellOf(own))
	}
	if cells[0] == cells[1] {
		return cells[0]
	}
	return strings.Join(cells, "/")
}

func cellOf(own memlock.Result) string {
	switch {
	case own.Unlimited:
		return "unlimited"
	case own.Required:
		return strconv.FormatInt(own.Bytes, 10)
	}
	return "none"
}

// Two GPUs and 64 GiB: KubeVirt rounds only the first guest memory.
func TestOwnRoundsOnce(t *testing.T) {
	version, ratio := inputs(t, "v1.9.0", "-")
	vm := vmis(t)["gpus-large"]
	own, err := kubevirt.Own(vm, version, ratio, kubevirt.QEMU)
	if err != nil {
		t.Fatal(err)
	}
	limit, err := kubevirt.Limit(vm, version, ratio)
	if err != nil || limit.Bytes != own.Bytes || own.Bytes%1000 == 0 {
		t.Errorf("%d, %v, and KubeVirt sets %d", limit.Bytes, err, own.Bytes)
	}
}
