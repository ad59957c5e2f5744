package kubevirtnode

import (
	"context"
	"errors"
	"testing"
)

// expectFailure is for a promise that does not hold yet. documented names the page and section that
// describe the failure. If the check passes, the test fails: its owner then removes expectFailure.
func expectFailure(t *testing.T, documented string, check func(ctx context.Context) error) {
	t.Helper()
	err := check(t.Context())
	if err == nil {
		t.Errorf("%s: the promise holds now: remove expectFailure", documented)
		return
	}
	if t.Context().Err() != nil {
		t.Fatal(errors.Join(err, t.Context().Err()))
	}
	t.Logf("expected failure, see %s: %v", documented, err)
}
