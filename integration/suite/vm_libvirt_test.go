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

// partition is what a domain of the node's libvirt says in <resource><partition>
// to lie in a pod's slice. libvirt makes a systemd slice of it: slashes become
// dashes, dashes would be escaped, and the kubelet writes underscores for those of
// a UID. A partition that already is a slice's name does not work.
func partition(p cri.Pod) string {
	slice := strings.TrimSuffix(p.CgroupParent(), ".slice")
	return "/" + strings.ReplaceAll(slice, "-", "/")
}

// podCgroup is the cgroup of a pod's slice.
func podCgroup(p cri.Pod) string {
	return "/kubepods.slice/kubepods-burstable.slice/" + p.CgroupParent()
}

// startDomain has the node's libvirt start the VM, in the pod's slice.
func (f fixture) startDomain(ctx context.Context, v *vm) error {
	return f.startDomainOf(ctx, v, `<resource><partition>`+partition(v.pod)+`</partition></resource>`)
}

// startDomainOf starts the VM with more in its domain.
func (f fixture) startDomainOf(ctx context.Context, v *vm, pieces string) error {
	xml := domainXML(v.domain(), `<memory unit='MiB'>64</memory>`+pieces, "")
	var said bytes.Buffer
	err := f.Run(ctx, node.Command{
		Args:  []string{"virsh", "create", "/dev/stdin"},
		Stdin: strings.NewReader(xml), Stdout: io.Discard, Stderr: &said,
	})
	if err != nil {
		return fmt.Errorf("virsh create: %w: %s", err, &said)
	}
	return f.learnDomain(ctx, v)
}

// learnDomain finds the process of a VM that the node's libvirt has started.
func (f fixture) learnDomain(ctx context.Context, v *vm) error {
	text, err := f.Output(ctx, "cat", "/run/libvirt/qemu/"+v.domain()+".pid")
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	v.process, err = f.processOf(ctx, pid)
	return err
}

func TestDomainLiesInThePodsSlice(t *testing.T) {
	f := bare(t)
	v := f.runVM(t, placement{name: "node-level libvirt", libvirt: true}, want{pod: stranger})
	got, err := f.cgroupOf(t.Context(), v.process)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got, podCgroup(v.pod)+"/machine-qemu") {
		t.Errorf("QEMU is in %s, want it in a scope of %s", got, podCgroup(v.pod))
	}
	own, err := f.cgroupOf(t.Context(), v.owner)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(got, own) {
		t.Errorf("QEMU is in the launcher's own cgroup %s", got)
	}
}
