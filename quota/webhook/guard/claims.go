package guard

import (
	"slices"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// claimTime is how long an admitted VM claims its launcher, at most until the API server has stored
// the VM. It is short, because another webhook may refuse the VM. It exceeds [timeout], so a claim
// outlives the reads of each request that came before it.
const claimTime = 5 * time.Second

// claim is a VM that this process has admitted lately.
type claim struct {
	vm       string
	launcher v1alpha1.ReservedPod // with its whole charge
	until    time.Time
}

// claims are the recent claims by namespace. The API server shows a VM only after its admission, so
// two requests at once would not see each other. Several goroutines may use it at once.
type claims struct {
	mu          sync.Mutex
	byNamespace map[string][]claim
}

// check checks a demand against the claims of its namespace.
func (all *claims) check(namespace string, now time.Time, d *demand) error {
	all.mu.Lock()
	defer all.mu.Unlock()
	return d.check(all.current(namespace, now))
}

// admit is check, and makes a demand that fits a claim.
func (all *claims) admit(namespace string, now time.Time, d *demand) error {
	all.mu.Lock()
	defer all.mu.Unlock()
	recent := all.current(namespace, now)
	if err := d.check(recent); err != nil {
		return err
	}
	if all.byNamespace == nil {
		all.byNamespace = map[string][]claim{}
	}
	earlier := func(c claim) bool { return c.vm == d.vm }
	all.byNamespace[namespace] = append(slices.DeleteFunc(recent, earlier),
		claim{d.vm, d.launcher.Pod, now.Add(claimTime)})
	return nil
}

// current drops expired claims and returns the others. The caller holds mu.
func (all *claims) current(namespace string, now time.Time) []claim {
	left := slices.DeleteFunc(all.byNamespace[namespace], func(c claim) bool {
		return now.After(c.until)
	})
	if len(left) == 0 {
		delete(all.byNamespace, namespace)
		return nil
	}
	all.byNamespace[namespace] = left
	return left
}
