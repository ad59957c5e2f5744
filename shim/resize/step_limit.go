package resize

import (
	"context"
	"fmt"
	"time"
)

// AwaitRoom waits until the memory.max of pod and container are as high as the VM needs
// them. Kubelet raises them.
type AwaitRoom struct {
	Need  uint64        `json:"need"`
	Bound time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s AwaitRoom) String() string {
	return fmt.Sprintf("wait until the memory.max of pod and container are at least %s", show(s.Need))
}

// Within implements Step.
func (s AwaitRoom) Within() time.Duration { return s.Bound }

// ConfirmedBy implements Step.
func (AwaitRoom) ConfirmedBy() string { return "memory.max, as the kernel shows it" }

// UndoneBy implements Step.
func (AwaitRoom) UndoneBy() string { return "nothing was changed" }

func (AwaitRoom) kind() kind { return kindAwaitRoom }

func (AwaitRoom) do(context.Context, hands, Is) error { return nil }

func (s AwaitRoom) done(is Is) error { return fits(is, s.Need) }

func (AwaitRoom) undo(Is) Step { return nil }

// AwaitLimit waits until the memory.max of the container is as low as it is wanted,
// after the VM gave memory back. Kubelet lowers it.
type AwaitLimit struct {
	Limit uint64        `json:"limit"`
	Bound time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s AwaitLimit) String() string {
	return fmt.Sprintf("wait until the memory.max of the container is %s", show(s.Limit))
}

// Within implements Step.
func (s AwaitLimit) Within() time.Duration { return s.Bound }

// ConfirmedBy implements Step.
func (AwaitLimit) ConfirmedBy() string { return "memory.max, as the kernel shows it" }

// UndoneBy implements Step.
func (AwaitLimit) UndoneBy() string { return "nothing was changed" }

func (AwaitLimit) kind() kind { return kindAwaitLimit }

func (AwaitLimit) do(context.Context, hands, Is) error { return nil }

func (s AwaitLimit) done(is Is) error {
	if is.Seen.ContainerMax > s.Limit {
		return fmt.Errorf("memory.max of the container is %s: want at most %s", show(is.Seen.ContainerMax), show(s.Limit))
	}
	return nil
}

func (AwaitLimit) undo(Is) Step { return nil }
