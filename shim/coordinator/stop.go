package coordinator

import (
	"context"
	"log/slog"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/shutdown"
)

// The shim ceases to be a stop handler after awayAfter without a connection to libvirt, and after
// silentAfter without an answer to a query. Without libvirt it cannot shut the guest down, and the
// agent must not wait for it. On a busy node, a connected libvirt takes several seconds to answer.
const (
	awayAfter   = 5 * time.Second
	silentAfter = 20 * time.Second
)

// maxAnswerWait bounds the wait of the pod's request for an answer of libvirt. It is less than the
// 15 s by which the agent's clock is longer than the guest's grace period.
const maxAnswerWait = 10 * time.Second

// stopRequests collects the stop requests for one VM. The pod's request is final. The agent can
// withdraw its own.
type stopRequests struct {
	agent Agent
	log   *slog.Logger
	grace time.Duration // the guest's grace period

	stopping chan<- struct{} // closed at the pod's request

	agentStops  <-chan podapi.Stop // nil: no subscription, or the channel was closed
	unsubscribe func()             // ends the subscription; nil: none
	// start of the first query that libvirt has not answered; zero: none
	silentSince time.Time
	away        bool // the last query found no connection

	byPod         bool
	byPodSince    time.Time
	byAgent       podapi.Stop // latest request of the agent
	agentDeadline time.Time   // when the agent ends the VM itself, if it requests a stop
}

// updateSubscription subscribes to the agent's stop requests, until ctx ends, while libvirt
// answers.
func (o *stopRequests) updateSubscription(ctx context.Context) {
	silence := o.silence()
	switch {
	case o.silentSince.IsZero() && o.unsubscribe == nil:
		ctx, o.unsubscribe = context.WithCancel(ctx)
		o.agentStops = o.agent.Stops(ctx)
	case o.unsubscribe == nil:
	case o.away && silence > awayAfter:
		o.log.Warn("libvirt is away: the agent has to end the VM without the shim")
		o.unsubscribeAgent()
	case silence > silentAfter:
		o.log.Warn("libvirt does not answer: the agent has to end the VM without the shim",
			"for", silence.Truncate(time.Second))
		o.unsubscribeAgent()
	}
}

// silence is the age of the first query without an answer; zero: libvirt answers.
func (o *stopRequests) silence() time.Duration {
	if o.silentSince.IsZero() {
		return 0
	}
	return time.Since(o.silentSince)
}

// unsubscribeAgent ends the subscription and drops the agent's request.
func (o *stopRequests) unsubscribeAgent() {
	if o.unsubscribe != nil {
		o.unsubscribe()
	}
	o.agentStops, o.unsubscribe, o.byAgent = nil, nil, podapi.Stop{}
}

// onAgentStop stores the agent's request. ok is false if the channel was closed.
func (o *stopRequests) onAgentStop(stop podapi.Stop, ok bool) {
	if !ok {
		o.agentStops = nil
		return
	}
	o.byAgent, o.agentDeadline = stop, time.Now().Add(stop.TimeLeft())
}

// requested reports whether the pod or the agent requests a stop.
func (o *stopRequests) requested() bool { return o.byPod || o.byAgent.Requested }

// reason returns the reason for the log.
func (o *stopRequests) reason() string {
	if o.byPod {
		return "the pod requests it"
	}
	return o.byAgent.Reason
}

// sendDeadline sends the agent's deadline unless it has sent it before. It returns the deadline
// sent last.
func (o *stopRequests) sendDeadline(deadlines chan time.Time, sent time.Time) time.Time {
	if !o.byAgent.Requested || o.agentDeadline.Equal(sent) {
		return sent
	}
	replace(deadlines, o.agentDeadline)
	return o.agentDeadline
}

// forwardDeadlines forwards the agent's deadlines until done is closed, ctx ends, or no request is
// left. Only in the last case it returns true.
func (w *watcher) forwardDeadlines(
	ctx context.Context,
	done <-chan struct{},
	deadlines chan time.Time,
) (withdrawn bool) {
	var sent time.Time
	for w.requested() {
		sent = w.sendDeadline(deadlines, sent)
		if !w.handleNext(ctx, done) {
			return false
		}
	}
	return true
}

// shutDown shuts the guest down, once for all requests, within the shortest deadline. It gives up
// if no request is left.
func (c *Coordinator) shutDown(ctx context.Context, w *watcher) {
	c.Log.Info("shutting the guest down", "reason", w.reason())
	options, deadlines := c.Shutdown, make(chan time.Time, 1)
	if w.byPod && !w.isUpToDate() {
		options.Grace -= w.maxWait() // of which the wait has used that much
	}
	options.Deadlines = deadlines
	runCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var outcome shutdown.Outcome
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		outcome, err = shutdown.Run(runCtx, w.domain, options)
	}()
	withdrawn := w.forwardDeadlines(ctx, done, deadlines)
	cancel()
	<-done
	switch {
	case err == nil:
		c.Log.Info("the VM has ended", "how", outcome)
	case withdrawn:
		c.Log.Info("the agent has withdrawn its stop request")
	default:
		c.Log.Warn(err.Error())
	}
}
