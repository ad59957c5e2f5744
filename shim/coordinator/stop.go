package coordinator

import (
	"context"
	"log/slog"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/shutdown"
)

// lostAfter is how long libvirt may be away before the shim leaves the VM's end to the
// agent: nobody here could see to it.
const unreachableAfter = 5 * time.Second

// orders say whether a VM is to end. The pod asks by its file, and for good; the agent
// asks for reasons of its own.
type stopRequests struct {
	podRequested func() (bool, error)
	agent        Agent
	log          *slog.Logger

	agentStops  <-chan podapi.Stop // nil: the agent does not ask
	unsubscribe func()             // has it ask no more; nil: it does not
	silentSince time.Time          // since when libvirt has not answered; zero: it has

	byPod         bool
	byAgent       podapi.Stop // as it was told last
	agentDeadline time.Time   // when the agent goes on by itself, if it asks
}

// judge has the agent ask, but not while libvirt is away. It can ask until ctx ends.
func (o *stopRequests) updateSubscription(ctx context.Context) {
	lost := !o.silentSince.IsZero() && time.Since(o.silentSince) > unreachableAfter
	switch {
	case o.silentSince.IsZero() && o.unsubscribe == nil:
		ctx, o.unsubscribe = context.WithCancel(ctx)
		o.agentStops = o.agent.Stops(ctx)
	case lost && o.unsubscribe != nil:
		o.log.Warn("libvirt is away, and the end of the VM is left to the agent")
		o.unsubscribeAgent()
	}
}

// leaveAgent has the agent ask no more, and forgets what it has asked for.
func (o *stopRequests) unsubscribeAgent() {
	if o.unsubscribe != nil {
		o.unsubscribe()
	}
	o.agentStops, o.unsubscribe, o.byAgent = nil, nil, podapi.Stop{}
}

// readFile reads whether the pod asks.
func (o *stopRequests) readPodRequest() {
	asked, err := o.podRequested()
	if err != nil {
		o.log.Debug("whether the pod asks for the end of its VM is not known", "error", err)
	}
	o.byPod = o.byPod || asked && err == nil
}

// hear takes what the agent asks for.
func (o *stopRequests) onAgentStop(stop podapi.Stop, ok bool) {
	if !ok {
		o.agentStops = nil
		return
	}
	o.byAgent, o.agentDeadline = stop, time.Now().Add(stop.TimeLeft())
}

// asked reports whether the VM is to end.
func (o *stopRequests) requested() bool { return o.byPod || o.byAgent.Requested }

// reason is for people.
func (o *stopRequests) reason() string {
	if o.byPod {
		return "the pod asks for it"
	}
	return o.byAgent.Reason
}

// tell tells of the end of the agent's patience if that is not told, and returns it.
func (o *stopRequests) sendDeadline(sooner chan time.Time, told time.Time) time.Time {
	if !o.byAgent.Requested || o.agentDeadline.Equal(told) {
		return told
	}
	select {
	case <-sooner: // which nobody has taken
	default:
	}
	sooner <- o.agentDeadline
	return o.agentDeadline
}

// follow tells of the end of the agent's patience, and of another if that changes, until
// done is closed, ctx ends, or nobody asks any more: then it returns true.
func (w *watcher) forwardDeadlines(ctx context.Context, done <-chan struct{}, sooner chan time.Time) (withdrawn bool) {
	var told time.Time
	for w.requested() {
		told = w.sendDeadline(sooner, told)
		if !w.handleNext(ctx, done) {
			return false
		}
	}
	return true
}

// shutDown has the guest shut down, once for all who ask, within the least time that
// anybody has for it. It gives up when nobody asks any more.
func (c *Coordinator) shutDown(ctx context.Context, w *watcher) {
	c.Log.Info("the guest is asked to shut down", "reason", w.reason())
	options, sooner := c.Shutdown, make(chan time.Time, 1)
	options.Deadlines = sooner
	asking, end := context.WithCancel(ctx)
	defer end()
	var outcome shutdown.Outcome
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		outcome, err = shutdown.Run(asking, w.domain, options)
	}()
	withdrawn := w.forwardDeadlines(ctx, done, sooner)
	end()
	<-done
	switch {
	case err == nil:
		c.Log.Info("the VM has ended", "how", outcome)
	case withdrawn:
		c.Log.Info("the agent does not ask for the end of the VM any more")
	default:
		c.Log.Warn(err.Error())
	}
}
