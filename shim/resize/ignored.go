package resize

import "errors"

// ErrIgnored means that the guest has taken none of the memory of a step. It may still boot.
var ErrIgnored = errors.New("the guest has not begun to take memory")

// ignoredError is an ErrIgnored with the text of its cause.
type ignoredError struct{ error }

func (e *ignoredError) Unwrap() error        { return e.error }
func (e *ignoredError) Is(target error) bool { return target == ErrIgnored }

// ignorable is a step that gives the guest memory.
type ignorable interface{ isIgnored(Observed) bool }

// isIgnored reports whether the guest has taken none of a step's memory.
func isIgnored(s Step, o Observed) bool {
	i, ok := s.(ignorable)
	return ok && i.isIgnored(o)
}

func (s RequestMemory) isIgnored(o Observed) bool {
	d, ok := o.device(s.Alias)
	return ok && s.To > s.From && d.Current <= s.From
}

func (s AttachVirtioMem) isIgnored(o Observed) bool {
	d, ok := s.attached(o)
	return ok && s.request(d).isIgnored(o)
}
