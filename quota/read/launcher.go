package read

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/quota/estimate"
)

// EstimateLauncher reads the LimitRanges of the namespace and estimates the launcher of an
// instance. It sets in.LimitRanges.
func EstimateLauncher(
	ctx context.Context, from client.Reader, namespace string, in estimate.Input,
) (estimate.Launcher, error) {
	ranges := &corev1.LimitRangeList{}
	if err := List(ctx, from, ranges, client.InNamespace(namespace)); err != nil {
		return estimate.Launcher{}, err
	}
	in.LimitRanges = Pointers(ranges.Items)
	return estimate.Estimate(in)
}
