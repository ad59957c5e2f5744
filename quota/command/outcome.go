package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// leaseLost is controller-runtime's error after leadership was lost. It has no variable for it.
const leaseLost = "leader election lost"

// outcome returns the error of a run that ended with err. A run that ends on SIGTERM has none: the
// next leader continues unfinished work.
func outcome(ctx context.Context, err error, logger *slog.Logger) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)):
		logger.Warn("the next leader continues unfinished work", "error", err)
		return nil
	case err.Error() == leaseLost:
		return fmt.Errorf("%w: the API server did not renew Lease %s in time, or another "+
			"instance has it; start the controller again", err, program)
	}
	return err
}
