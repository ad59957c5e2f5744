package guard

import (
	"context"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// A new pod claims its charge until the API server has stored it, and for podClaim at most. The
// claim of a resize cannot end with its charge, so it lasts only for resizeClaim. Both exceed
// [timeout].
const (
	podClaim    = 30 * time.Second
	resizeClaim = 5 * time.Second
)

// podClaims are the pods admitted lately, by namespace.
type podClaims struct {
	mu          sync.Mutex
	byNamespace map[string]*podQueue
}

// queue returns the queue of a namespace.
func (all *podClaims) queue(namespace string) *podQueue {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.byNamespace == nil {
		all.byNamespace = map[string]*podQueue{}
	}
	q := all.byNamespace[namespace]
	if q == nil {
		q = &podQueue{turn: make(chan struct{}, 1)}
		all.byNamespace[namespace] = q
	}
	return q
}

// podQueue serves the requests of a namespace one at a time. The holder of the turn uses recent.
type podQueue struct {
	turn   chan struct{}
	recent []admittedPod
}

// admittedPod is a pod that this process has admitted.
type admittedPod struct {
	uid    types.UID // empty for a resize
	charge v1alpha1.ReservedPod
	until  time.Time
}

// enter waits for the turn, or for the end of the context.
func (q *podQueue) enter(ctx context.Context) error {
	select {
	case q.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *podQueue) leave() { <-q.turn }

func (q *podQueue) expire(now time.Time) {
	q.recent = slices.DeleteFunc(q.recent, func(p admittedPod) bool { return now.After(p.until) })
}

func (q *podQueue) dropStored(stored map[types.UID]bool) {
	q.recent = slices.DeleteFunc(q.recent, func(p admittedPod) bool { return stored[p.uid] })
}

func (q *podQueue) charges() []v1alpha1.ReservedPod {
	all := make([]v1alpha1.ReservedPod, len(q.recent))
	for i, p := range q.recent {
		all[i] = p.charge
	}
	return all
}

func (q *podQueue) claim(want podDemand, operation admissionv1.Operation, now time.Time) {
	p := admittedPod{uid: want.pod.UID, charge: want.charge, until: now.Add(podClaim)}
	if operation == admissionv1.Update {
		p.uid, p.until = "", now.Add(resizeClaim)
	}
	q.recent = append(q.recent, p)
}
