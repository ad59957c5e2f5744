package resizevm

import (
	"cmp"

	"github.com/mooring-vm/mooring/api"
)

// keptSize returns the size of each dimension without annotation of the VM. The launcher still asks
// mooring-shim for this size, and the template has another one. During a migration the last status
// has the size. reason is the result of findLauncher.
func (d *decision) keptSize(reason api.ResizeReason) api.ResizeAmounts {
	var kept api.ResizeAmounts
	switch {
	case d.pod != nil:
		asked, template := d.askedSize(), &d.VMI.Spec.Domain
		if int64(asked.VCPUs) == vcpusOf(template.CPU) {
			asked.VCPUs = 0
		}
		if int64(asked.Memory) == guestMemory(template) {
			asked.Memory = 0
		}
		kept = api.AmountsOf(asked)
	case reason == api.ResizeMigrating:
		last, _ := statusIn(d.VM.Annotations)
		kept.VCPUs = cmp.Or(last.Kept.VCPUs, last.Desired.VCPUs)
		kept.Memory = cmp.Or(last.Kept.Memory, last.Desired.Memory)
	}
	if d.desired.VCPUs != 0 {
		kept.VCPUs = 0
	}
	if d.desired.Memory != 0 {
		kept.Memory = ""
	}
	return kept
}
