package quota

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// RetryAnnotation of a raised quota is the time of the last retry, in RFC 3339. KubeVirt retries a
// rejected target pod when a quota of the namespace changes, and a change that it misses would
// delay the migration forever. So the controller changes this annotation while a quota with room
// still rejects a target pod.
const RetryAnnotation = "retry.quota" + api.Suffix

// The delay of a retry doubles between these limits.
const (
	minRetryDelay = 10 * time.Second
	maxRetryDelay = 5 * time.Minute
)

// retry sets the annotation of a quota if a retry is due. Otherwise it notes the time of the next
// one.
func (p *planner) retry(a Account, w *WriteQuota) {
	was := a.Quota.Annotations[RetryAnnotation]
	last, _ := time.Parse(time.RFC3339, was) // an unreadable time is none
	for _, d := range p.drafts {
		if !p.retries(d) || !a.holds(d.after) {
			continue
		}
		due := p.retryDue(p.waitingSince(d), last)
		if due.After(p.Now) {
			p.nextRetry = earlier(p.nextRetry, due)
			continue
		}
		w.Annotations[RetryAnnotation] = p.Now.UTC().Format(time.RFC3339)
		p.nextRetry = earlier(p.nextRetry, p.Now.Add(minRetryDelay))
	}
}

// retries reports whether KubeVirt could create a rejected target pod now.
func (p *planner) retries(d draft) bool { return d.rejected && p.grant(d).granted }

// checkAgain notes the time of the next plan for a rejected target pod without room. No event shows
// the end of each wait: the controller ignores most changes of status.used.
func (p *planner) checkAgain(d draft, g grant) {
	if d.rejected && !g.granted {
		p.nextRetry = earlier(p.nextRetry, p.retryDue(p.waitingSince(d), p.Now))
	}
}

// retryDue returns the time of the next retry of a target pod that waits since a time. A time in
// the future comes from a wrong clock or from another client, and counts as none.
func (p *planner) retryDue(since, last time.Time) time.Time {
	if last.After(p.Now) {
		last = time.Time{}
	}
	if since.After(p.Now) {
		since = last
	}
	if last.Before(since) {
		last = since
	}
	return last.Add(min(max(last.Sub(since), minRetryDelay), maxRetryDelay))
}

// waitingSince returns the time since which a quota rejects the target pod.
func (p *planner) waitingSince(d draft) time.Time {
	if d.before != nil {
		c := meta.FindStatusCondition(d.before.Status.Conditions, v1alpha1.ConditionWaiting)
		if c != nil && c.Status == "True" {
			return c.LastTransitionTime.Time
		}
	}
	return p.Now.Truncate(time.Second)
}
