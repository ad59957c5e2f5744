package kube

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// The same figures as client-go's spam filter: kubelet retries a refused container for ever, and
// each retry may say something slightly different.
const (
	podBurst  = 25
	podPeriod = 5 * time.Minute
)

// limiters holds a token bucket for each pod. Not safe for concurrent use.
type limiters map[agentapi.PodRef]*rate.Limiter

func (l limiters) allow(pod agentapi.PodRef) bool {
	limiter := l[pod]
	if limiter == nil {
		limiter = rate.NewLimiter(rate.Every(podPeriod), podBurst)
		l[pod] = limiter
	}
	return limiter.Allow()
}

// sweep drops the pods with a full bucket.
func (l limiters) sweep() {
	for pod, limiter := range l {
		if limiter.Tokens() >= podBurst {
			delete(l, pod)
		}
	}
}
