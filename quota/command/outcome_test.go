package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	kerrors "k8s.io/apimachinery/pkg/util/errors"
)

// TestOutcome: a requested end is no failure, and a lost lease names the cause.
func TestOutcome(t *testing.T) {
	late := fmt.Errorf("failed waiting for all runnables to end: %w", context.DeadlineExceeded)
	for name, tt := range map[string]struct {
		requested bool // by SIGTERM
		err       error
		want      string // "": none
	}{
		"ended":                   {true, nil, ""},
		"ended late":              {true, late, ""},
		"ended before the caches": {true, context.Canceled, ""},
		"several of these":        {true, kerrors.NewAggregate([]error{late}), ""},
		"a failure at the end":    {true, errors.New("a port is in use"), "a port is in use"},
		"late by itself":          {false, late, "failed waiting"},
		"a lost lease":            {false, errors.New(leaseLost), "did not renew Lease mooring-"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			if tt.requested {
				end()
			}
			got := outcome(ctx, tt.err, slog.New(slog.DiscardHandler))
			if (got == nil) != (tt.want == "") ||
				got != nil && !strings.Contains(got.Error(), tt.want) {
				t.Errorf("got %v, want %q", got, tt.want)
			}
		})
	}
}
