package memlock

import (
	"fmt"
	"math"

	"github.com/mooring-vm/mooring/api"
)

// Term is one summand of a limit, with a name for people. Bytes is never negative.
type Term struct {
	Name  string
	Bytes int64
}

// Result is a computed limit. If Required is false, there is no limit to set, and only Reason and
// Unknown have values.
type Result struct {
	Required  bool   // there is a limit to set
	Unlimited bool   // the limit is infinite; Bytes is 0 and there are no Terms
	Bytes     int64  // otherwise the limit, the sum of Terms
	Terms     []Term // the summands of Bytes
	Reason    string // for people, one sentence

	// Unknown lists the missing inputs for people: each says why the VM may need more than Bytes.
	// Empty: the computation had every input.
	Unknown []string

	// Libvirt is libvirt's limit for the VM's devices, and the annotated value. A VM process with
	// this limit works. 0: the VM has no devices, and its process needs Bytes.
	Libvirt int64
}

// Limited returns a limit that is the sum of terms. The error is a sum beyond an int64.
func Limited(reason string, terms ...Term) (Result, error) {
	total, err := Total(terms)
	if err != nil {
		return Result{}, err
	}
	return Result{Required: true, Bytes: total, Terms: terms, Reason: reason}, nil
}

// Infinite returns an unlimited result.
func Infinite(reason string) Result {
	return Result{Required: true, Unlimited: true, Reason: reason}
}

// Covers reports whether r lets a process lock at least as much as o. It compares the limits only,
// not the missing inputs.
func (r Result) Covers(o Result) bool {
	switch {
	case !o.Required || r.Unlimited:
		return true
	case !r.Required || o.Unlimited:
		return false
	}
	return r.Bytes >= o.Bytes
}

// Total adds up terms. The error is a sum beyond an int64. It names the term at which the sum
// overflows.
func Total(terms []Term) (int64, error) {
	var total int64
	for _, t := range terms {
		if t.Bytes > math.MaxInt64-total {
			return 0, fmt.Errorf("memory lock: %s more for %s is more than an int64 holds",
				api.Bytes(t.Bytes), t.Name)
		}
		total += t.Bytes
	}
	return total, nil
}

// Times returns n times a term, named so where n is not 1. The error is a product beyond an int64.
func (t Term) Times(n int64) (Term, error) {
	if n == 1 {
		return t, nil
	}
	if t.Bytes > 0 && n > math.MaxInt64/t.Bytes {
		return Term{}, fmt.Errorf("memory lock: %d x %s (%s) is more than an int64 holds",
			n, api.Bytes(t.Bytes), t.Name)
	}
	return Term{fmt.Sprintf("%d x %s", n, t.Name), n * t.Bytes}, nil
}
