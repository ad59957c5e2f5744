package memlock

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
)

// The five cases of the rule, for a VM with 4 GiB and an overhead of 300 MiB.
func TestVEP144(t *testing.T) {
	base := []Term{{"guest memory", 4 * gi}, {"overhead", 300 * mi}}
	withValue := slices.Concat(base, []Term{{"value", gi}})
	for name, c := range map[string]struct {
		demand Demand
		want   []Term // nil: nothing is to be set
	}{
		"absent":             {Demand{}, nil},
		"empty value":        {Demand{Value: api.Lockable{}}, nil},
		"true without value": {Demand{RequiresLock: true}, base},
		"true with value": {Demand{RequiresLock: true, Value: api.Lockable{Bytes: gi}},
			withValue},
		"false with value":     {Demand{Value: api.Lockable{Bytes: gi}}, nil},
		"false with unlimited": {Demand{Value: api.Lockable{Unlimited: true}}, nil},
		"with VFIO":            {Demand{Implicit: true}, base},
		"with VFIO, value": {Demand{Implicit: true, Value: api.Lockable{Bytes: gi}},
			withValue},
		"with VFIO, true": {Demand{Implicit: true, RequiresLock: true}, base},
		"with VFIO, true, value": {Demand{Implicit: true, RequiresLock: true,
			Value: api.Lockable{Bytes: gi}}, withValue},
		"existing conditions give more": {Demand{RequiresLock: true, Implicit: true,
			Minimum: []Term{{"4 x", 16 * gi}}, Value: api.Lockable{Bytes: gi}},
			[]Term{{"4 x", 16 * gi}, {"value", gi}}},
		"existing conditions give less": {Demand{Implicit: true, Minimum: []Term{{"little", gi}}},
			base},
	} {
		d := c.demand
		d.Base = base
		got, err := VEP144(d, "because")
		want := Result{Reason: "because"}
		if c.want != nil {
			want, _ = Limited("because", c.want...)
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
}

func TestVEP144IsNeverBelowLibvirt(t *testing.T) {
	base := []Term{{"guest memory", 4 * gi}}
	five, _ := Limited("libvirt", Term{"hard_limit", 5 * gi})
	three, _ := Limited("libvirt", Term{"hard_limit", 3 * gi})
	infinite := Infinite("locked")
	four, _ := Limited("because", base...)
	nothing := Result{Reason: "because"}
	for name, c := range map[string]struct {
		requires      bool
		libvirt, want Result
	}{
		"more":                      {true, five, five},
		"less":                      {true, three, four},
		"none":                      {true, Result{}, four},
		"unlimited":                 {true, infinite, infinite},
		"not required, but set":     {false, three, three},
		"not required, and not set": {false, Result{Reason: "no device"}, nothing},
	} {
		got, err := VEP144(Demand{RequiresLock: c.requires, Base: base, Libvirt: c.libvirt},
			"because")
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
	got, err := VEP144(Demand{RequiresLock: true, Value: api.Lockable{Unlimited: true},
		Libvirt: five}, "because")
	if !got.Unlimited || err != nil || !strings.Contains(got.Reason, "unlimited") {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestVEP144Overflows(t *testing.T) {
	for _, d := range []Demand{
		{RequiresLock: true, Base: []Term{{"guest memory", math.MaxInt64}, {"overhead", 1}}},
		{RequiresLock: true, Base: []Term{{"guest memory", math.MaxInt64}},
			Value: api.Lockable{Bytes: 1}},
		{Implicit: true, Minimum: []Term{{"guest memory", math.MaxInt64}, {"more", 1}}},
	} {
		got, err := VEP144(d, "because")
		if err == nil || !strings.Contains(err.Error(), "more than an int64 holds") {
			t.Errorf("%+v: got %+v, %v", d, got, err)
		}
	}
}
