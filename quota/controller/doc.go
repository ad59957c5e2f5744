// Package controller applies the plans of package quota to a cluster: it raises the ResourceQuotas
// of a namespace for live migrations, and lowers them afterwards.
//
// One worker at a time handles a namespace. It reads from caches, plans, and writes in the plan's
// order. After a failure or a conflict it reads and plans again. A restart loses no state: the
// ledger of MigrationReservations and the annotations of quotas hold it.
package controller
