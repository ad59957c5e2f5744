package agent

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// maxCrowdPeriod is the longest time between two reports about the same launcher.
const maxCrowdPeriod = time.Hour

// reportCrowd reports that n processes in a launcher's cgroup have no room in the tracker. Empty
// cgroup: they have no launcher.
type reportCrowd func(cgroup string, n int, since time.Duration)

// crowds are the groups with processes without room in the tracker.
type crowds struct {
	report reportCrowd

	mu      sync.Mutex
	cgroups map[uint64]string // of the registered groups
	groups  map[uint64]*crowd
}

// crowd is one of these groups.
type crowd struct {
	since, due time.Time // first found, next report
}

func newCrowds(report reportCrowd) *crowds {
	return &crowds{report: report, cgroups: map[uint64]string{}, groups: map[uint64]*crowd{}}
}

// name notes the cgroup of a group.
func (c *crowds) name(group uint64, cgroup string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cgroups[group] = cgroup
}

// forget removes a group.
func (c *crowds) forget(group uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.cgroups, group)
	delete(c.groups, group)
}

// update takes the numbers of processes without room. It reports a new group at once, and again
// whenever the age has doubled, at most hourly.
func (c *crowds) update(noRoom map[uint64]int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for group := range c.groups {
		if noRoom[group] == 0 {
			delete(c.groups, group)
		}
	}
	for group, n := range noRoom {
		known := c.groups[group]
		if known == nil {
			known = &crowd{since: now, due: now}
			c.groups[group] = known
		}
		if now.Before(known.due) {
			continue
		}
		age := now.Sub(known.since)
		known.due = now.Add(min(max(age, time.Minute), maxCrowdPeriod))
		c.report(c.cgroups[group], n, age)
	}
}

// reportCrowd implements [reportCrowd] with an Event of the launcher.
func (a *Agent) reportCrowd(cgroup string, n int, since time.Duration) {
	since = since.Round(time.Second)
	a.logger.Warn("the tracker has no room for some processes", "cgroup", cgroup, "processes", n,
		"since", since)
	for _, l := range a.registry.List() {
		if id := l.Container.ID; id == "" || !strings.Contains(cgroup, id) {
			continue
		}
		a.recorders().Record(agentapi.Event{
			Time: time.Now(), Type: agentapi.Warning, Reason: agentapi.ReasonTrackerFull,
			Pod: l.Pod, Container: l.Container,
			Message: fmt.Sprintf("the tracker has had no room for %d processes of the launcher "+
				"for %s: the agent confirms no stop while they run; let the launcher run fewer "+
				"processes", n, since),
		})
	}
}
