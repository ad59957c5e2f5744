package resize

import (
	"context"
	"errors"
	"time"
)

// The errors of a Node, for errors.Is.
var (
	// ErrAgent: the agent is away, and the call may or may not have been executed.
	ErrAgent = errors.New("no connection to the agent")

	// ErrPolicy: the node's policy forbids the call.
	ErrPolicy = errors.New("the node's policy does not allow it")

	// ErrMigrating: a migration of the VM runs or is about to start.
	ErrMigrating = errors.New("the VM is being migrated")
)

// Node is the resize package's interface to the node's agent. Calls block until the agent answers,
// ctx ends or the connection is lost.
type Node interface {
	// Limits reads the kernel's limits of the pod, its container and its QEMU.
	Limits(ctx context.Context) (Limits, error)

	// RaiseLock raises QEMU's memory-lock limit, soft and hard. It never lowers the limit.
	RaiseLock(ctx context.Context, bytes uint64) error

	// LowerLock lowers QEMU's memory-lock limit, soft and hard. It never raises the limit. The
	// agent refuses values below QEMU's locked memory or [Limits].Floor.
	LowerLock(ctx context.Context, bytes uint64) error

	// RequireMemory sets the memory requirement of pod and container, in bytes. The agent refuses
	// updates of the container with a lower limit until the requirement falls. The requirement
	// survives the shim. A restarted agent applies it again once it knows the VM process. Until
	// then only kubelet's own check of used memory protects the VM.
	RequireMemory(ctx context.Context, bytes uint64) error

	// Hold blocks migrations for a time from now, and reserves the node's memory for growth in
	// bytes. A time of 0 or less ends both. The error is ErrMigrating during a migration.
	Hold(ctx context.Context, d time.Duration, growth uint64) error

	// Changed returns a channel that receives after possible changes of Limits. It is closed when
	// ctx ends. It may miss changes while the agent is away.
	Changed(ctx context.Context) (<-chan struct{}, error)
}
