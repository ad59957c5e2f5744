package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

const (
	nodeStates = "nodestates"

	// statePeriod is the shortest time between two writes of the node's state.
	statePeriod = 10 * time.Second
	// heartbeatPeriod is the longest time between two writes. Readers accept three periods.
	heartbeatPeriod = time.Minute
)

// StateWriterConfig configures a [StateWriter].
type StateWriterConfig struct {
	Clients
	Node string // name of this node
	// State returns the facts of the status, from memory.
	State  func() State
	Logger *slog.Logger
	// Period and Heartbeat bound the time between two writes from below and from above. 0 means 10
	// seconds and one minute.
	Period, Heartbeat time.Duration
}

// StateWriter writes the [v1alpha1.NodeState] of one node: after a change, and as a heartbeat.
type StateWriter struct {
	config StateWriterConfig

	// Owned by the goroutine of Run.
	object    *v1alpha1.NodeState // as of the latest write; nil: unknown
	written   time.Time
	lastError string
}

// NewStateWriter returns a writer. It sends no request; [StateWriter.Run] does.
func NewStateWriter(config StateWriterConfig) (*StateWriter, error) {
	if config.Node == "" {
		return nil, errors.New("node state: the node name is empty")
	}
	if config.Period == 0 {
		config.Period = statePeriod
	}
	if config.Heartbeat == 0 {
		config.Heartbeat = heartbeatPeriod
	}
	return &StateWriter{config: config}, nil
}

// Run writes until ctx ends. It retries a failed write after a period. It must be called once.
func (w *StateWriter) Run(ctx context.Context) {
	ticker := time.NewTicker(w.config.Period)
	defer ticker.Stop()
	for ctx.Err() == nil {
		w.report(ctx, w.writeIfDue(ctx, time.Now()))
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// report logs an error once until another one, or a success, follows.
func (w *StateWriter) report(ctx context.Context, err error) {
	switch {
	case err == nil:
		w.lastError = ""
	case ctx.Err() == nil && err.Error() != w.lastError:
		w.lastError = err.Error()
		w.config.Logger.WarnContext(ctx, "cannot write the state of this node: `kubectl mooring` "+
			"shows an older one", slog.Any("error", err))
	}
}

// writeIfDue writes after a change of the facts, and after a heartbeat period.
func (w *StateWriter) writeIfDue(ctx context.Context, now time.Time) error {
	status, err := w.config.State().status()
	if err != nil {
		return err
	}
	if w.object != nil && now.Sub(w.written) < w.config.Heartbeat &&
		equality.Semantic.DeepEqual(facts(&w.object.Status), facts(&status)) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return w.write(ctx, status, now)
}

// write writes the status. The object may be another one than at the latest write.
func (w *StateWriter) write(ctx context.Context, status v1alpha1.NodeStateStatus, now time.Time) (
	err error,
) {
	if w.object == nil {
		if w.object, err = w.getOrCreate(ctx); err != nil {
			return err
		}
	}
	next := w.object.DeepCopy()
	conditions := next.Status.Conditions
	for _, c := range status.Conditions {
		meta.SetStatusCondition(&conditions, c)
	}
	status.Conditions = conditions
	status.HeartbeatTime = metav1.NewTime(now)
	next.Status = status
	stored := &v1alpha1.NodeState{}
	err = w.config.States.Put().Resource(nodeStates).Name(w.config.Node).SubResource("status").
		Body(next).Do(ctx).Into(stored)
	if err != nil {
		w.object = nil // it may have changed or gone
		return fmt.Errorf("update the status of nodestate %s: %w", w.config.Node, err)
	}
	w.object, w.written = stored, now
	return nil
}

func (w *StateWriter) getOrCreate(ctx context.Context) (*v1alpha1.NodeState, error) {
	object := &v1alpha1.NodeState{}
	err := w.config.States.Get().Resource(nodeStates).Name(w.config.Node).Do(ctx).Into(object)
	if err == nil {
		return object, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("get nodestate %s: %w", w.config.Node, err)
	}
	if object, err = w.newObject(ctx); err != nil {
		return nil, err
	}
	created := &v1alpha1.NodeState{}
	if err := w.config.States.Post().Resource(nodeStates).Body(object).Do(ctx).Into(created); err !=
		nil {
		return nil, fmt.Errorf("create nodestate %s: %w", w.config.Node, err)
	}
	return created, nil
}

// newObject returns the object to create. Its owner is the Node, so it ends with the Node.
func (w *StateWriter) newObject(ctx context.Context) (*v1alpha1.NodeState, error) {
	node := &corev1.Node{}
	err := w.config.Core.Get().Resource("nodes").Name(w.config.Node).Do(ctx).Into(node)
	if err != nil {
		return nil, fmt.Errorf("get node %s: %w", w.config.Node, err)
	}
	owner := metav1.NewControllerRef(node, corev1.SchemeGroupVersion.WithKind("Node"))
	owner.BlockOwnerDeletion = nil // requires a right on the Node
	return &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{
		Name: w.config.Node, OwnerReferences: []metav1.OwnerReference{*owner}}}, nil
}
