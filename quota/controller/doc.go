// Package controller carries out on a cluster what package quota plans: it raises the
// ResourceQuotas of a namespace for the live migrations in it, and lowers them afterwards.
//
// One worker at a time deals with a namespace. It reads from caches, plans, and writes in
// the plan's order; what fails or has changed meanwhile is read and planned for anew. It
// keeps nothing that a restart would lose: what it has done is in the ledger of
// MigrationReservations and in the quotas' annotations.
package controller
