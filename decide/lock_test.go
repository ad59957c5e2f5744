package decide_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

func TestCeiling(t *testing.T) {
	tenant, vague, stranger := facts("tenant-1", nil), facts("accounts", nil), facts("none", nil)
	endless, beyond := facts("trusted", nil), facts("trusted", decidetest.VFIO())
	endless.MemoryLimit = 0
	beyond.NodeMemory = gi
	bad := facts("trusted", map[string]string{api.GuestMemoryKey: "lots"})
	for name, c := range map[string]struct {
		facts decide.Facts
		want  *host.Limit
	}{
		"no request": {tenant, limit(16 * gi)},
		"unlimited": {facts("trusted", decidetest.VFIO()),
			limit(host.Unlimited)},
		"unlimited without a memory limit":   {endless, limit(32 * gi)},
		"unlimited beyond the node's memory": {beyond, limit(32 * gi)},
		"account not known":                  {vague, nil},
		"no rule":                            {stranger, nil},
		"is refused":                         {bad, limit(host.Unlimited)},
	} {
		got := decide.Container(decidetest.Policy(t, policy.Enforce), c.facts).Ceiling
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: ceiling %v, want %v", name, got, c.want)
		}
	}
}

func TestMaximum(t *testing.T) {
	endless, refused := facts("trusted", nil), facts("tenant-1", decidetest.Lock("17Gi"))
	endless.MemoryLimit = 0
	for name, c := range map[string]struct {
		facts decide.Facts
		want  *host.Limit
	}{
		"max":                            {facts("tenant-1", nil), limit(16 * gi)},
		"max and unlimited":              {facts("trusted", nil), nil},
		"unlimited, and no memory limit": {endless, limit(32 * gi)},
		"refused":                        {refused, nil},
		"no rule":                        {facts("none", nil), nil},
	} {
		for _, mode := range []policy.Mode{policy.Enforce, policy.Observe} {
			got := decide.Container(decidetest.Policy(t, mode), c.facts).Maximum()
			if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
				t.Errorf("%s, %s: maximum %v, want %v", name, mode, got, c.want)
			}
		}
	}
}

func TestRequireMemoryLimit(t *testing.T) {
	p := decidetest.Policy(t, policy.Enforce)
	p.Memlock.RequireMemoryLimit = true
	for _, c := range []struct {
		limit, node int64
		requests    map[string]string
		want        string // in the refusal; empty: none
	}{
		{2 * gi, 0, decidetest.VFIO(), ""},
		{0, 0, nil, ""},
		{0, 0, decidetest.VFIO(), `the node policy requires a memory limit ` +
			`(memlock.requireMemoryLimit), and container "compute" has none; set its ` +
			`resources.limits.memory`},
		{-1, 0, decidetest.VFIO(), "has none"},
		{3 * gi, 2 * gi, decidetest.VFIO(), "has one of 3Gi, which is more than the node's memory"},
		{0, 0, decidetest.UnlimitedLock(), "an unlimited lock is bounded by"},
	} {
		f := facts("trusted", c.requests)
		f.MemoryLimit, f.NodeMemory = c.limit, c.node
		d := decide.Container(p, f)
		if (d.Refusal == nil) != (c.want == "") ||
			d.Refusal != nil && !strings.Contains(d.Refusal.Message, c.want) {
			t.Errorf("memory limit %d of %d: refusal %v, want %q", c.limit, c.node, d.Refusal, c.want)
		}
		if c.limit != 2*gi && d.Ceiling != nil {
			t.Errorf("memory limit %d: ceiling %s, want none", c.limit, d.Ceiling)
		}
	}
}

// A launcher without memory limit is allowed by default, and reported.
func TestUnboundedLauncherIsReported(t *testing.T) {
	for bytes, want := range map[int64]bool{0: true, -1: true, 2 * gi: false} {
		f := facts("trusted", decidetest.VFIO())
		f.MemoryLimit = bytes
		d := decide.Container(decidetest.Policy(t, policy.Enforce), f)
		if got := strings.Contains(strings.Join(d.Notes, "\n"), "unbounded: "); got != want ||
			!d.Act() {
			t.Errorf("memory limit %d: notes %q, refusal %v, want it reported: %t", bytes, d.Notes,
				d.Refusal, want)
		}
	}
}

// drawLockFacts draws a new launcher with a memory lock as its only request.
func drawLockFacts(t *rapid.T) (decide.Facts, host.Limit) {
	quantity := rapid.SampledFrom([]string{"1", "4Gi", "16Gi", "17179869185", "32Gi", "33Gi",
		"7Ei"}).Draw(t, "quantity")
	requests := decidetest.Lock(quantity)
	bytes, err := api.ParseBytes(quantity)
	if err != nil {
		t.Fatal(err)
	}
	lock := host.Limit(bytes)
	if rapid.Bool().Draw(t, "unlimited") {
		requests, lock = decidetest.UnlimitedLock(), host.Unlimited
	}
	f := facts(rapid.SampledFrom([]string{"trusted", "tenant-a", "accounts", "nowhere"}).Draw(t,
		"namespace"), requests)
	f.ServiceAccount = rapid.SampledFrom([]string{"vm-1", "default"}).Draw(t, "account")
	f.ServiceAccountKnown = rapid.Bool().Draw(t, "known")
	f.MemoryLimit = rapid.SampledFrom([]int64{-1, 0, gi, 65 * gi}).Draw(t, "limit")
	f.HugePages = rapid.SampledFrom([]int64{0, gi, 1<<63 - 1}).Draw(t, "huge pages")
	f.NodeMemory = rapid.SampledFrom([]int64{0, 64 * gi}).Draw(t, "node memory")
	f.NodeGranted = rapid.SampledFrom([]int64{0, 32 * gi, 60 * gi, 60*gi + 1, 64 * gi,
		1<<63 - 1}).Draw(t, "granted")
	return f, lock
}

func TestCreationAndRaiseAgree(t *testing.T) {
	p := decidetest.Policy(t, policy.Enforce)
	rapid.Check(t, func(t *rapid.T) {
		p.Memlock.RequireMemoryLimit = rapid.Bool().Draw(t, "require memory limit")
		f, lock := drawLockFacts(t)
		created := decide.Container(p, f)
		if created.Memlock == nil || *created.Memlock != lock {
			t.Fatalf("decided about %v, want %s", created.Memlock, lock)
		}
		err := decide.Raise(p, decide.RaiseFacts{Facts: f, Desired: lock})
		if (err == nil) != (created.Refusal == nil) {
			t.Fatalf("creation %v, raise %v", created.Refusal, err)
		}
		if err != nil && !strings.Contains(created.Refusal.Message, errors.Unwrap(err).Error()) {
			t.Fatalf("creation refused by\n%v\nand the raise by\n%v", created.Refusal, err)
		}
		if most := created.Ceiling; err == nil && (most == nil || lock > *most) {
			t.Fatalf("raised to %s, ceiling %v", lock, most)
		}
	})
}

func TestRaise(t *testing.T) {
	enforce := decidetest.Policy(t, policy.Enforce)
	full, denied := facts("tenant-a", nil), facts("nowhere", nil)
	full.NodeGranted = 64 * gi
	for name, c := range map[string]struct {
		policy *policy.Policy
		facts  decide.RaiseFacts
		want   string // in the error; empty: allowed
	}{
		"within the rule": {enforce, decide.RaiseFacts{Facts: facts("tenant-a", nil),
			Current: gi, Desired: 16 * gi}, ""},
		"beyond the rule": {enforce, decide.RaiseFacts{Facts: facts("tenant-a", nil),
			Current: gi, Desired: 17 * gi}, `rule "tenants" of the node policy allows up to 16Gi`},
		"finite, and unlimited": {enforce, decide.RaiseFacts{Facts: facts("trusted", nil),
			Desired: 33 * gi}, "allows up to 32Gi"},
		"node is full": {enforce, decide.RaiseFacts{Facts: full, Current: gi,
			Desired: 2 * gi}, "memlock.nodeMax"},
		"node is full, within its memory limit": {enforce, decide.RaiseFacts{Facts: full,
			Current: gi, Desired: 3 * gi, Charged: 2 * gi}, ""},
		"has it already": {enforce, decide.RaiseFacts{Facts: denied, Current: 2 * gi,
			Desired: 2 * gi}, ""},
		"no rule": {enforce, decide.RaiseFacts{Facts: denied, Current: gi,
			Desired: 2 * gi}, `no rule of the node policy matches namespace "nowhere"`},
		"account unknown": {enforce, decide.RaiseFacts{Facts: facts("accounts", nil),
			Desired: gi}, policy.ErrAccountUnknown.Error()},
		"launcher is refused": {enforce, decide.RaiseFacts{Facts: facts("tenant-a", nil),
			Desired: gi, Refusal: "too much"}, "runs although the node policy refuses it: " +
			"too much"},
		"observe mode": {decidetest.Policy(t, policy.Observe),
			decide.RaiseFacts{Facts: facts("tenant-a", nil), Current: gi, Desired: gi},
			"mode enforce would raise"},
		"observe mode, beyond the rule": {decidetest.Policy(t, policy.Observe),
			decide.RaiseFacts{Facts: facts("tenant-a", nil), Current: gi, Desired: 17 * gi},
			`mode enforce would refuse: mooring refuses`},
	} {
		err := decide.Raise(c.policy, c.facts)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
