package policydiff

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// pairwise adds up the parts of all other launchers of the node, as a specification of without.
func (a accounts) pairwise(i int, all []Launcher) int64 {
	var sum uint64
	for j, part := range a.parts {
		if j != i && all[j].Node == all[i].Node {
			sum = min(sum+uint64(part), math.MaxInt64)
		}
	}
	return int64(sum)
}

func TestAccountsAreSumsOfOthers(t *testing.T) {
	p := parse(t, "mode: enforce\n")
	sizes := []int64{0, 1, 5 << 30, math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64}
	states := []agentapi.State{agentapi.StateRunning, agentapi.StateStopped, agentapi.StateRefused}
	rapid.Check(t, func(t *rapid.T) {
		all := make([]Launcher, rapid.IntRange(0, 20).Draw(t, "launchers"))
		for i := range all {
			f := vm(fmt.Sprint(i))
			f.MemoryLimit = rapid.SampledFrom(sizes).Draw(t, "memory")
			l := running(p, f)
			l.Node = rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "node")
			l.State = rapid.SampledFrom(states).Draw(t, "state")
			l.VMs = make([]agentapi.VM, rapid.IntRange(0, 1).Draw(t, "VMs"))
			l.OnlyAccount = rapid.Bool().Draw(t, "only account")
			if rapid.Bool().Draw(t, "without facts") {
				l.Facts = nil
			}
			all[i] = l
		}
		a := newAccounts(p, all)
		for i, l := range all {
			if got, want := a.without(i, l.Node), a.pairwise(i, all); got != want {
				t.Fatalf("without launcher %d of node %q: %d, want %d", i, l.Node, got, want)
			}
		}
	})
}

// The VM process of a stopped launcher stays in the account.
func TestDiffCountsVMsThatAreLeft(t *testing.T) {
	p := parse(t, allowing)
	limited := parse(t, allowing+"memlock: {nodeMax: 8Gi}\n") // one of 5Gi fits
	stopped, next := running(p, vm("stopped")), running(p, vm("next"))
	stopped.State = agentapi.StateStopped
	for vms, want := range []int{0, 1} {
		stopped.VMs = make([]agentapi.VM, vms)
		report := Diff(limited, []Launcher{stopped, next})
		if got := report.Count(Refused); got != want || report.Launchers != 1 {
			t.Errorf("%d VM processes: %+v, want %d refused", vms, report, want)
		}
	}
}

func BenchmarkDiff(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := parse(b, allowing+"memlock: {nodeMax: 8Gi}\n")
			all := make([]Launcher, n)
			for i := range all {
				all[i] = running(p, vm(fmt.Sprint(i)))
			}
			for b.Loop() {
				Diff(p, all)
			}
		})
	}
}
