package controller

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/quota"
)

const (
	// proofPeriod is how long the proof of a guard lasts. Somebody can remove the webhooks.
	proofPeriod = time.Minute

	// Minimum and maximum wait between two probes. The API server sees the label of a namespace
	// some milliseconds after its write.
	minProbeDelay = 20 * time.Millisecond
	maxProbeDelay = 30 * time.Second
)

// guardProof is the last answer to a probe of the webhook for pods in a namespace.
type guardProof struct {
	at    time.Time // of the proof; zero: none
	fault string    // why there is none
	delay time.Duration
}

// unguarded returns why the plan must not raise quotas of a namespace; empty: it may. The API
// server calls the webhook only in a labelled namespace, so a proof ends with the label.
func (r *Reconciler) unguarded(ns *namespace, s quota.Snapshot) string {
	if r.Guarded == nil || !r.Guarded(ns.name) {
		return ""
	}
	if s.Namespace.Labels[quota.ReservedLabel] != "true" {
		ns.guard.at = time.Time{}
	}
	if !ns.guard.at.IsZero() && r.Now().Sub(ns.guard.at) < proofPeriod {
		return ""
	}
	return cmp.Or(ns.guard.fault, "the webhook for pods has not answered yet")
}

// proveGuard asks the API server for a dry run that the webhook for pods refuses. It returns the
// wait until the next plan.
func (r *Reconciler) proveGuard(ctx context.Context, ns *namespace) time.Duration {
	err := r.Client.Create(ctx, quota.Probe(ns.name), client.DryRunAll)
	if quota.IsProof(err) {
		ns.guard = guardProof{at: r.Now()}
		return time.Millisecond
	}
	fault := "the webhook for pods does not guard the namespace: the API server admits a probe pod"
	if err != nil {
		fault = fmt.Sprintf("the webhook for pods does not guard the namespace: the API server "+
			"answers a probe pod: %v", err)
	}
	ns.guard.at = time.Time{}
	ns.guard.delay = min(max(2*ns.guard.delay, minProbeDelay), maxProbeDelay)
	if ns.guard.delay >= time.Second && ns.guard.fault != fault {
		ns.guard.fault = fault
		r.Logger.Warn("no quota of the namespace is raised", "namespace", ns.name, "error", fault)
	}
	return ns.guard.delay
}
