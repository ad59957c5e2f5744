package resize

import (
	"context"
	"fmt"
	"time"
)

// AwaitRaisedLimit waits until kubelet has raised memory.max of pod and container to the memory
// requirement. The kernel's values confirm it. It only waits, so it has no rollback.
type AwaitRaisedLimit struct {
	AtLeast uint64        `json:"need"`
	Within  time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s AwaitRaisedLimit) String() string {
	return fmt.Sprintf("wait until memory.max of pod and container is at least %s",
		formatBytes(s.AtLeast))
}

// Timeout implements Step.
func (s AwaitRaisedLimit) Timeout() time.Duration { return s.Within }

func (AwaitRaisedLimit) kind() kind { return kindAwaitRaisedLimit }

func (AwaitRaisedLimit) execute(context.Context, handles, Observed) error { return nil }

func (s AwaitRaisedLimit) verify(o Observed) error { return checkMemoryMax(o, s.AtLeast) }

func (AwaitRaisedLimit) rollback(Observed) Step { return nil }

// AwaitLoweredLimit waits, after the VM has released memory, until kubelet has lowered memory.max
// of the container. The kernel's value confirms it. It only waits, so it has no rollback.
type AwaitLoweredLimit struct {
	AtMost uint64        `json:"limit"`
	Within time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s AwaitLoweredLimit) String() string {
	return fmt.Sprintf("wait until memory.max of the container is at most %s",
		formatBytes(s.AtMost))
}

// Timeout implements Step.
func (s AwaitLoweredLimit) Timeout() time.Duration { return s.Within }

func (AwaitLoweredLimit) kind() kind { return kindAwaitLoweredLimit }

func (AwaitLoweredLimit) execute(context.Context, handles, Observed) error { return nil }

func (s AwaitLoweredLimit) verify(o Observed) error {
	if o.Limits.ContainerMax > s.AtMost {
		return fmt.Errorf("memory.max of the container is %s: want at most %s",
			formatBytes(o.Limits.ContainerMax), formatBytes(s.AtMost))
	}
	return nil
}

func (AwaitLoweredLimit) rollback(Observed) Step { return nil }
