// Package uninstall takes away what Mooring leaves behind, so that nothing of it holds
// anybody up: in a cluster ([Cluster]) webhooks, raised quotas, reservations with their
// finalizer, and annotations that nobody keeps true any more; on a node ([Node]) what is
// pinned in the kernel, the tmpfs of pod directories, and the units.
//
// It can be run again, also after it has failed half-way, and does what is left to do.
package uninstall

import "fmt"

// Report hears of what is done, a line of text for each thing.
type Report struct {
	Tell func(line string)

	// DryRun has nothing done. What would be done is told.
	DryRun bool
}

func (r Report) tell(format string, args ...any) { r.Tell(fmt.Sprintf(format, args...)) }

// do does something to an object, and tells of it when it is done.
func (r Report) do(what string, do func() error) error {
	if r.DryRun {
		r.tell("would %s", what)
		return nil
	}
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	r.tell("%s: done", what)
	return nil
}
