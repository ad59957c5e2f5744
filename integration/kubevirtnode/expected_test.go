package kubevirtnode

import (
	"context"
	"errors"
	"testing"
)

// expectFailure is for a promise that does not hold yet. issue names the work that completes it. If
// the check passes, the test fails: its owner then removes expectFailure.
func expectFailure(t *testing.T, issue string, check func(ctx context.Context) error) {
	t.Helper()
	err := check(t.Context())
	if err == nil {
		t.Errorf("expected failure of issue %s: the promise holds now: remove expectFailure", issue)
		return
	}
	if t.Context().Err() != nil {
		t.Fatal(errors.Join(err, t.Context().Err()))
	}
	t.Logf("expected failure of issue %s: %v", issue, err)
}
