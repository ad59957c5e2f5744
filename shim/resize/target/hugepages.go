package target

import (
	"github.com/mooring-vm/mooring/api"
)

// hugePages computes the memory of a guest with huge pages. They count against a limit of their
// own, which Kubernetes cannot change for a running pod. Beyond that limit the kernel kills the VM.
// So the guest can shrink, and regain its boot memory. The memory limit bounds only the overhead.
func (c *computation) hugePages() error {
	requested, most := uint64(c.desired.Memory), max(c.guest.Boot, c.guest.Memory)
	switch {
	case requested == 0 && !c.guest.Keeps && c.memory > 0:
		c.note("memory: unchanged: the memory limit does not bound a guest with huge pages")
		return nil
	case requested == 0:
		return nil
	case requested > most:
		return tooMuch(api.ResizeMemoryKey, show(requested), "want at most %s, which the guest "+
			"has: a running pod cannot get more huge pages; create the VM anew for more memory",
			show(most))
	}
	memory := c.wholeBlocks(requested)
	overhead, err := c.overhead(memory, c.vcpuCount())
	c.target.Memory, c.target.Overhead, c.target.HugePages = api.Bytes(memory), overhead, true
	c.target.Limit = uint64(c.memory)
	return err
}
