package podserver

import (
	"sync"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
)

// growths is the node's account of memory for resizes under way. Without it two VMs could plan with
// the same free memory. A reservation ends with its hold.
type growths struct {
	mu    sync.Mutex
	byPod map[string]growth // by UID
}

type growth struct {
	bytes uint64
	until time.Time
}

// reserve replaces the pod's reservation. available is the node's free memory for the pod. A
// refusal changes nothing.
func (g *growths) reserve(uid string, next growth, available uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	others := g.ofOthers(uid)
	if next.bytes > available-min(others, available) {
		return refusal(podapi.CodeNoMemory, "the resize adds %s: the node has %s available, and "+
			"reserves %s of it for resizes of other pods", api.Bytes(next.bytes),
			podapi.Amount(available), api.Bytes(others))
	}
	if g.byPod == nil {
		g.byPod = map[string]growth{}
	}
	g.byPod[uid] = next
	return nil
}

func (g *growths) release(uid string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.byPod, uid)
}

// reservedBeside returns the bytes reserved for other pods.
func (g *growths) reservedBeside(uid string) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ofOthers(uid)
}

// ofOthers also drops expired reservations. The caller holds mu.
func (g *growths) ofOthers(uid string) (sum uint64) {
	for other, r := range g.byPod {
		switch {
		case !time.Now().Before(r.until):
			delete(g.byPod, other)
		case other != uid:
			sum += r.bytes
		}
	}
	return sum
}
