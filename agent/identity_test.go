package agent

import (
	"testing"

	"github.com/mooring-vm/mooring/bpf"
)

// The start time passes from the kernel to the supervisor and back without a loss.
func TestIdentityOfAProcess(t *testing.T) {
	p := bpf.Tracked{Process: bpf.Process{PID: 7, StartTime: 123_456_789}}
	if got := kernelProcess(trackedProcess(&p).Process); got != p.Process {
		t.Errorf("%+v came back as %+v", p.Process, got)
	}
}
