package kube

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

const attemptTimeout = 5 * time.Second

// persist calls write until it succeeds, the API server refuses for good, or five attempts over
// some 15 seconds have failed. The error is write's last one.
func persist(ctx context.Context, write func(context.Context) error) error {
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.25, Steps: 5}
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, backoff,
		func(ctx context.Context) (done bool, err error) {
			ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
			defer cancel()
			last = write(ctx)
			if last == nil || !worthRetrying(last) {
				return true, last
			}
			return false, nil
		})
	if err != nil && last != nil {
		return last
	}
	return err
}

// worthRetrying reports whether the API server was away or busy, and has not refused.
func worthRetrying(err error) bool {
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		return true
	}
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err)
}
