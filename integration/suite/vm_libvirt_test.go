package suite

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/integration/cri"
	"github.com/mooring-vm/mooring/integration/node"
)

// partition returns the <resource><partition> that puts a domain of the node's libvirt into a
// pod's slice. libvirt turns it into the name of a systemd slice: slashes become dashes, and
// dashes would be escaped. kubelet writes underscores for the dashes of a UID. The name of a
// slice itself does not work as a partition.
func partition(p cri.Pod) string {
	slice := strings.TrimSuffix(p.CgroupParent(), ".slice")
	return "/" + strings.ReplaceAll(slice, "-", "/")
}

// podCgroup returns the cgroup of a pod's slice.
func podCgroup(p cri.Pod) string {
	return "/kubepods.slice/kubepods-burstable.slice/" + p.CgroupParent()
}

// startDomain starts the VM as a domain of the node's libvirt, in the pod's slice.
func (f fixture) startDomain(ctx context.Context, v *vm) error {
	return f.startDomainOf(ctx, v, `<resource><partition>`+partition(v.pod)+
		`</partition></resource>`)
}

// startDomainOf starts the VM with further pieces in its domain.
func (f fixture) startDomainOf(ctx context.Context, v *vm, pieces string) error {
	xml := domainXML(v.domain(), `<memory unit='MiB'>64</memory>`+pieces, "")
	var stderr bytes.Buffer
	err := f.Run(ctx, node.Command{
		Args:  []string{"virsh", "create", "/dev/stdin"},
		Stdin: strings.NewReader(xml), Stdout: io.Discard, Stderr: &stderr,
	})
	if err != nil {
		return fmt.Errorf("virsh create: %w: %s", err, &stderr)
	}
	return f.findDomainProcess(ctx, v)
}

// findDomainProcess finds the process of a VM of the node's libvirt.
func (f fixture) findDomainProcess(ctx context.Context, v *vm) error {
	text, err := f.Output(ctx, "cat", "/run/libvirt/qemu/"+v.domain()+".pid")
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	v.vmProcess, err = f.processOf(ctx, pid)
	return err
}

func TestDomainIsInThePodsSlice(t *testing.T) {
	f := withoutSetUp(t)
	v := f.runVM(t, placement{name: "node-level libvirt", libvirt: true},
		vmOptions{pod: unmanagedPod})
	got, err := f.cgroupOf(t.Context(), v.vmProcess)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got, podCgroup(v.pod)+"/machine-qemu") {
		t.Errorf("QEMU is in %s, want it in a scope of %s", got, podCgroup(v.pod))
	}
	own, err := f.cgroupOf(t.Context(), v.launcherProcess)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(got, own) {
		t.Errorf("QEMU is in the launcher's own cgroup %s", got)
	}
}
