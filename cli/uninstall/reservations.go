package uninstall

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// removeReservations empties the ledger. It prints each active migration, because it loses its
// reservation.
func (c *Cluster) removeReservations(ctx context.Context) error {
	var list v1alpha1.MigrationReservationList
	err := c.Client.List(ctx, &list)
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return nil // no CRD, no reservations
	case err != nil:
		return fmt.Errorf("list MigrationReservations: %w", err)
	}
	var errs []error
	for i := range list.Items {
		errs = append(errs, c.removeReservation(ctx, &list.Items[i]))
	}
	return errors.Join(errs...)
}

func (c *Cluster) removeReservation(ctx context.Context, r *v1alpha1.MigrationReservation) error {
	what := fmt.Sprintf("remove MigrationReservation %s/%s", r.Namespace, r.Name)
	if r.Status.Phase != v1alpha1.PhaseReleasing {
		what += fmt.Sprintf(" of migration %s (quotas may refuse its pods)", r.Spec.Migration.Name)
	}
	return c.Report.do(what, func() error {
		if err := c.Client.Delete(ctx, r); err != nil {
			return client.IgnoreNotFound(err)
		}
		if !controllerutil.ContainsFinalizer(r, v1alpha1.Finalizer) {
			return nil
		}
		was := r.DeepCopy()
		controllerutil.RemoveFinalizer(r, v1alpha1.Finalizer)
		return client.IgnoreNotFound(c.Client.Patch(ctx, r, client.MergeFrom(was)))
	})
}
