package policycheck

import (
	"errors"
	"fmt"
	"io"

	"github.com/mooring-vm/mooring/api/policy"
)

// Report lists the faults and warnings of one policy. `mooring policy check -o json` prints it.
type Report struct {
	File     string    `json:"file"`
	Valid    bool      `json:"valid"`
	Mode     string    `json:"mode,omitempty"` // empty when not valid
	Profiles int       `json:"profiles"`
	Rules    int       `json:"rules"`
	Faults   []Fault   `json:"faults"`   // never null; the agent does not start with any of them
	Warnings []Warning `json:"warnings"` // never null; valid, but probably mistakes
}

// Fault is one reason for which the agent refuses a policy.
type Fault struct {
	// such as rules[1].memlock.max; empty: the file as a whole
	Path    string `json:"path,omitempty"`
	Value   string `json:"value,omitempty"` // as JSON; empty: there is none
	Message string `json:"message"`         // the allowed values
}

// Read reads a policy from r, as [policy.Load] does from a file. file is its name in errors. All
// faults of a policy come as one error, which [NewReport] splits.
func Read(file string, r io.Reader) (p *policy.Policy, err error) {
	data, err := io.ReadAll(io.LimitReader(r, policy.MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read node policy %s: %w", file, err)
	}
	p, err = policy.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("node policy %s: %w", file, err)
	}
	return p, nil
}

// NewReport reports the result of [Read] or [policy.Load].
func NewReport(file string, p *policy.Policy, err error) Report {
	r := Report{File: file, Faults: []Fault{}, Warnings: []Warning{}}
	if err != nil {
		r.Faults = faults(err)
		return r
	}
	r.Valid, r.Mode = true, string(p.Mode)
	r.Profiles, r.Rules = len(p.Profiles), len(p.Rules)
	r.Warnings = append(r.Warnings, Warnings(p)...)
	return r
}

// Summary returns the line that calls a policy valid.
func Summary(file string, p *policy.Policy) string {
	return fmt.Sprintf("%s is a valid node policy: mode %s, rules: %d", file, p.Mode, len(p.Rules))
}

// faults splits an error into one fault per field.
func faults(err error) []Fault {
	fields := fieldErrors(err)
	if len(fields) == 0 {
		return []Fault{{Message: err.Error()}}
	}
	all := make([]Fault, len(fields))
	for i, f := range fields {
		all[i] = Fault{Path: f.Path, Value: f.Value, Message: f.Allowed}
	}
	return all
}

// fieldErrors collects the field errors in a tree of wrapped and joined errors.
func fieldErrors(err error) (all []*policy.FieldError) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, fieldErrors(e)...)
		}
		return all
	}
	//nolint:errorlint // errors.As finds only the first one
	if f, ok := err.(*policy.FieldError); ok {
		return []*policy.FieldError{f}
	}
	if inner := errors.Unwrap(err); inner != nil {
		return fieldErrors(inner)
	}
	return nil
}
