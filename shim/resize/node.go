package resize

import (
	"context"
	"errors"
	"time"
)

// Errors of a Node that callers tell apart.
var (
	// ErrAgent: the agent is away, and whether the call was carried out is not known.
	ErrAgent = errors.New("no connection to the agent")

	// ErrPolicy: the policy of the node does not allow it.
	ErrPolicy = errors.New("the node's policy does not allow it")

	// ErrMigrating: the VM is being migrated, or is about to be.
	ErrMigrating = errors.New("the VM is being migrated")
)

// Node is what a resize needs of the node's agent. Calls block until it has answered,
// ctx ends or the connection is lost.
type Node interface {
	// Seen reads what the kernel shows of the pod, its container and its QEMU.
	Limits(ctx context.Context) (Limits, error)

	// RaiseLock sets the memory lock of QEMU, soft and hard, unless it is as high.
	RaiseLock(ctx context.Context, bytes uint64) error

	// LowerLock sets the memory lock of QEMU, soft and hard, if it is higher. It is
	// refused below what QEMU has locked at that moment, and below [Seen].Floor.
	LowerLock(ctx context.Context, bytes uint64) error

	// Need tells how much memory the pod and its container need from now on. Until it
	// is told less, the agent refuses updates of the container with a lower limit. What it
	// was told outlives the shim, and the agent: one that is started again knows it once
	// it knows the VM process. Until then it refuses none, and only kubelet's own look at
	// what is used is left.
	RequireMemory(ctx context.Context, bytes uint64) error

	// Hold keeps a migration from beginning for that long, from now; 0 or less gives it
	// free. The error is ErrMigrating where one is under way.
	Hold(ctx context.Context, d time.Duration) error

	// Changed is sent to when Seen may tell something else. It is closed when ctx is
	// done. It may miss what happens while the agent is away.
	Changed(ctx context.Context) (<-chan struct{}, error)
}
