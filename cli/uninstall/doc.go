// Package uninstall removes Mooring's state so that it cannot block users later. In a cluster
// ([Cluster]) it removes webhooks, quota raises, reservations with their finalizer, and computed
// annotations. On a node ([Node]) it removes the kernel pins, the tmpfs of pod directories, and the
// units.
//
// It can run repeatedly. After a failure, the next run does the remaining steps.
package uninstall

import "fmt"

// Report prints one line for each step.
type Report struct {
	Print func(line string)

	// DryRun prints the steps without executing them.
	DryRun bool
}

func (r Report) printf(format string, args ...any) { r.Print(fmt.Sprintf(format, args...)) }

// do executes a step on an object and prints it.
func (r Report) do(what string, do func() error) error {
	if r.DryRun {
		r.printf("would %s", what)
		return nil
	}
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	r.printf("%s: done", what)
	return nil
}
