package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// checkSource wants a commit with the version's tag and without changed files. A snapshot needs
// neither.
func (r *release) checkSource(ctx context.Context) error {
	if r.snapshot {
		return nil
	}
	changed, err := output(ctx, nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	tags, err := output(ctx, nil, "git", "tag", "--points-at", "HEAD")
	if err != nil {
		return err
	}
	var problems []error
	if changed = strings.TrimSpace(changed); changed != "" {
		problems = append(problems, fmt.Errorf("the tree has uncommitted changes: commit them, or "+
			"use --snapshot:\n%s", changed))
	}
	if !slices.Contains(strings.Fields(tags), r.version) {
		problems = append(problems, fmt.Errorf("the commit has no tag %s: check it out with `git "+
			"checkout %[1]s`, or use --snapshot", r.version))
	}
	return errors.Join(problems...)
}
