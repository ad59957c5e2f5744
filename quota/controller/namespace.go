package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/quota"
)

// namespaces holds the memory of all namespaces.
type namespaces struct {
	mu  sync.Mutex
	all map[string]*namespace
}

func (n *namespaces) get(name string) *namespace {
	n.mu.Lock()
	defer n.mu.Unlock()
	ns := n.all[name]
	if ns == nil {
		ns = &namespace{name: name, estimates: estimates{},
			reservedAt: map[string]time.Time{}}
		n.all[name] = ns
	}
	return ns
}

func (n *namespaces) drop(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.all, name)
}

// namespace is the controller's memory of one namespace. One worker at a time uses it. It only
// saves reads and prevents repeated reports.
type namespace struct {
	name       string
	unseen     map[object]string // resourceVersions of writes missing from the cache
	lastWrite  time.Time
	cacheStale bool   // read ledger and quotas live before the next use of the cache
	conflicts  int    // in a row
	states     states // reported so far
	withheld   withheld
	estimates  estimates
	guard      guardProof
	reservedAt map[string]time.Time // of reservations that are not granted yet, by name
}

// object identifies a written object.
type object struct {
	kind kind
	name string
	uid  types.UID
}

// kind is a kind of object, named as in the metrics.
type kind string

const (
	kindReservation kind = "reservation"
	kindStatus      kind = "status" // of a reservation
	kindQuota       kind = "quota"
	kindNamespace   kind = "namespace"
)

// object returns the kind of the object that a write changes.
func (k kind) object() kind {
	if k == kindStatus {
		return kindReservation
	}
	return k
}

// recordWrite records a write. The controller does not plan from a cache without it.
func (n *namespace) recordWrite(k kind, o client.Object, now time.Time) {
	if n.unseen == nil {
		n.unseen = map[object]string{}
	}
	n.unseen[object{k, o.GetName(), o.GetUID()}] = o.GetResourceVersion()
	n.lastWrite = now
}

// gone marks a released object: the cache must no longer show it.
const gone = "gone"

// recordRelease records a release. The controller does not plan from a cache that still shows the
// object.
func (n *namespace) recordRelease(k kind, o client.Object, now time.Time) {
	n.recordWrite(k, o, now)
	n.unseen[object{k, o.GetName(), o.GetUID()}] = gone
}

// conflictDelay returns the wait after a conflict.
func (n *namespace) conflictDelay() time.Duration {
	n.cacheStale = true
	delay := maxConflictDelay
	if n.conflicts < 8 {
		delay = min(minConflictDelay<<n.conflicts, maxConflictDelay)
	}
	n.conflicts++
	return delay
}

// cacheCaughtUp removes the writes shown by a snapshot and reports whether none is missing.
func (n *namespace) cacheCaughtUp(s quota.Snapshot) bool {
	if len(n.unseen) == 0 {
		return true
	}
	shown := map[object]string{}
	for _, r := range s.Reservations {
		shown[object{kindReservation, r.Name, r.UID}] = r.ResourceVersion
	}
	for _, q := range s.Quotas {
		shown[object{kindQuota, q.Name, q.UID}] = q.ResourceVersion
	}
	shown[object{kindNamespace, n.name, s.Namespace.UID}] = s.Namespace.ResourceVersion
	for o, written := range n.unseen {
		version, ok := shown[o]
		if written == gone && !ok || written != gone && ok && atLeast(version, written) {
			delete(n.unseen, o)
		}
	}
	return len(n.unseen) == 0
}

// trustCache forgets all missing writes after a read from the API server.
func (n *namespace) trustCache() {
	n.unseen, n.cacheStale = nil, false
}

// atLeast reports whether a version is the written one or a later one.
func atLeast(version, written string) bool {
	order, err := resourceversion.CompareResourceVersion(version, written)
	return err == nil && order >= 0
}
