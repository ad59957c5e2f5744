package policydiff

import (
	"math"
	"math/big"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// accounts has the memory-lock accounts of the nodes.
type accounts struct {
	parts []int64             // of each launcher in bytes, by its index
	sums  map[string]*big.Int // of each node; an int64 may be too small
}

func newAccounts(p *policy.Policy, all []Launcher) accounts {
	a := accounts{parts: make([]int64, len(all)), sums: map[string]*big.Int{}}
	for i := range all {
		l := &all[i]
		if !inAccount(l) || l.Facts == nil {
			continue
		}
		a.parts[i] = charge(p, *l.Facts)
		if a.sums[l.Node] == nil {
			a.sums[l.Node] = new(big.Int)
		}
		a.sums[l.Node].Add(a.sums[l.Node], big.NewInt(a.parts[i]))
	}
	return a
}

// inAccount reports whether the node's account has a part for the launcher: until it stops and its
// last VM process ends.
func inAccount(l *Launcher) bool {
	ended := l.State == agentapi.StateStopped || l.State == agentapi.StateRefused
	return !ended || len(l.VMs) > 0
}

// charge returns the part of a running launcher, which no policy can refuse any more.
func charge(p *policy.Policy, f decide.Facts) int64 {
	f.Exists = true
	d := decide.Container(p, f)
	if d.Demand == nil {
		return 0
	}
	bytes, _ := host.Bound{Memory: f.MemoryLimit, HugePages: f.HugePages,
		Outside: d.Domain != ""}.Charge(*d.Demand)
	return bytes
}

// without returns the account of a node without the launcher at an index. The largest int64 stands
// for any larger sum.
func (a accounts) without(i int, node string) int64 {
	sum, ok := a.sums[node]
	if !ok {
		return 0
	}
	others := new(big.Int).Sub(sum, big.NewInt(a.parts[i]))
	if !others.IsInt64() {
		return math.MaxInt64
	}
	return others.Int64()
}
