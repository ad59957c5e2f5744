package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/quota"
)

// namespaces are those that something is remembered of.
type namespaces struct {
	mu  sync.Mutex
	all map[string]*namespace
}

func (n *namespaces) get(name string) *namespace {
	n.mu.Lock()
	defer n.mu.Unlock()
	ns := n.all[name]
	if ns == nil {
		ns = &namespace{name: name, estimates: estimates{}}
		n.all[name] = ns
	}
	return ns
}

func (n *namespaces) drop(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.all, name)
}

// namespace is what is remembered of one. Only the worker that has it uses it. Nothing of
// it is needed for more than to save reads and to tell things once.
type namespace struct {
	name      string
	unseen    map[object]string // the resourceVersion that was written
	since     time.Time         // of the last write
	distrust  bool              // of the cached ledger and quotas, until they were read live
	conflicts int               // in a row
	states    states            // that were told
	estimates estimates
}

// object is one that is written.
type object struct {
	kind kind
	name string
	uid  types.UID
}

// kind is a kind of object, in the words of the metrics.
type kind string

const (
	kindReservation kind = "reservation"
	kindStatus      kind = "status" // of a reservation
	kindQuota       kind = "quota"
	kindNamespace   kind = "namespace"
)

// object is the kind of what a write of this kind changes.
func (k kind) object() kind {
	if k == kindStatus {
		return kindReservation
	}
	return k
}

// wrote remembers a write, so that nothing is planned from a cache that has not seen it.
func (n *namespace) wrote(k kind, o client.Object, now time.Time) {
	if n.unseen == nil {
		n.unseen = map[object]string{}
	}
	n.unseen[object{k, o.GetName(), o.GetUID()}] = o.GetResourceVersion()
	n.since = now
}

// gone is remembered of an object that was let go of: it is not to be shown any more.
const gone = "gone"

// released remembers that, so that nothing is reserved by a cache that still shows it.
func (n *namespace) released(k kind, o client.Object, now time.Time) {
	n.wrote(k, o, now)
	n.unseen[object{k, o.GetName(), o.GetUID()}] = gone
}

// conflict returns how long to wait after one.
func (n *namespace) conflict() time.Duration {
	n.distrust = true
	delay := maxConflictDelay
	if n.conflicts < 8 {
		delay = min(minConflictDelay<<n.conflicts, maxConflictDelay)
	}
	n.conflicts++
	return delay
}

// look strikes off what a snapshot shows, and says whether it shows all that was written.
func (n *namespace) look(s quota.Snapshot) bool {
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

// forgive strikes off everything: what was read came from the API server itself.
func (n *namespace) forgive() {
	n.unseen, n.distrust = nil, false
}

// atLeast says whether a version is the one that was written, or a later one.
func atLeast(version, written string) bool {
	order, err := resourceversion.CompareResourceVersion(version, written)
	return err == nil && order >= 0
}
