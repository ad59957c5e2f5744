package resize

import (
	"context"
	"fmt"
	"time"
)

// AwaitRoom waits until the memory.max of pod and container are as high as the VM needs
// them. Kubelet raises them.
type AwaitRaisedLimit struct {
	AtLeast uint64        `json:"need"`
	Within  time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s AwaitRaisedLimit) String() string {
	return fmt.Sprintf("wait until the memory.max of pod and container are at least %s", formatBytes(s.AtLeast))
}

// Within implements Step.
func (s AwaitRaisedLimit) Timeout() time.Duration { return s.Within }

// ConfirmedBy implements Step.
func (AwaitRaisedLimit) ConfirmedBy() string { return "memory.max, as the kernel shows it" }

// UndoneBy implements Step.
func (AwaitRaisedLimit) RollbackMethod() string { return "nothing was changed" }

func (AwaitRaisedLimit) kind() kind { return kindAwaitRaisedLimit }

func (AwaitRaisedLimit) execute(context.Context, handles, Observed) error { return nil }

func (s AwaitRaisedLimit) verify(o Observed) error { return checkMemoryMax(o, s.AtLeast) }

func (AwaitRaisedLimit) rollback(Observed) Step { return nil }

// AwaitLimit waits until the memory.max of the container is as low as it is wanted,
// after the VM gave memory back. Kubelet lowers it.
type AwaitLoweredLimit struct {
	AtMost uint64        `json:"limit"`
	Within time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s AwaitLoweredLimit) String() string {
	return fmt.Sprintf("wait until the memory.max of the container is %s", formatBytes(s.AtMost))
}

// Within implements Step.
func (s AwaitLoweredLimit) Timeout() time.Duration { return s.Within }

// ConfirmedBy implements Step.
func (AwaitLoweredLimit) ConfirmedBy() string { return "memory.max, as the kernel shows it" }

// UndoneBy implements Step.
func (AwaitLoweredLimit) RollbackMethod() string { return "nothing was changed" }

func (AwaitLoweredLimit) kind() kind { return kindAwaitLoweredLimit }

func (AwaitLoweredLimit) execute(context.Context, handles, Observed) error { return nil }

func (s AwaitLoweredLimit) verify(o Observed) error {
	if o.Limits.ContainerMax > s.AtMost {
		return fmt.Errorf("memory.max of the container is %s: want at most %s", formatBytes(o.Limits.ContainerMax), formatBytes(s.AtMost))
	}
	return nil
}

func (AwaitLoweredLimit) rollback(Observed) Step { return nil }
