package suite

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

// flood does without pause all that a pod can do to the agent: it touches its files,
// forks, and executes.
const flood = `while :; do touch /run/mooring/pod/stop /run/mooring/pod/heartbeat; done &
while :; do (:); done &
while :; do /bin/busybox true; done`

const (
	// floodForks is how many processes the node has started before anything is
	// asked of the agent.
	floodForks = 3000
	// floodMemory is how much more memory a pod's flood may cost the agent.
	floodMemory = 64 * mib
)

// TestFloodingPod: whatever one pod does, the VM of another is seen, and does not
// outlive its owner; and the agent takes no more memory for it.
func TestFloodingPod(t *testing.T) {
	f := setUpVMs(t)
	agent, before := f.agentPid(t), f.agentMemory(t)
	f.runFlood(t)
	v := f.runLaunchers(t, placements()[2:3], want{owner: careless})[0]
	f.awaitPhase(t, v, agentapi.PhaseRegistered)
	if err := f.start(t.Context(), v, asDaemon); err != nil {
		t.Fatal(err)
	}
	f.awaitVM(t, v, agentapi.VMRunning)
	f.moveElsewhere(t, v) // where the runtime does not find it
	stopped := f.terminated(t)
	each(t, []*vm{v}, func(ctx context.Context, v *vm) error { return f.signal(ctx, "KILL", v.owner) })
	f.awaitEnd(t, v.owner)
	f.awaitEnd(t, v.process)
	f.awaitFreed(t, v)
	if got := f.terminated(t); got <= stopped {
		t.Errorf("the agent counts %v VM processes that it has ended, and did before; it was not the agent", got)
	}
	if now := f.agentPid(t); now != agent {
		t.Errorf("the agent is process %s and was %s", now, agent)
	}
	after := f.agentMemory(t)
	t.Logf("the agent has %d MiB, and had %d before", after/mib, before/mib)
	if after > before+floodMemory {
		t.Errorf("the agent has %d MiB more than before, want %d at most", (after-before)/mib, floodMemory/mib)
	}
}

// runFlood runs a launcher that floods the agent until the test ends. It returns once
// the agent has had to do with it.
func (f fixture) runFlood(t *testing.T) {
	t.Helper()
	began := f.forks(t)
	p := launcher(map[string]string{api.WatchdogKey: "10m"})
	f.run(t, p, cri.Container{Args: []string{"sh", "-c", flood}, MemoryLimit: gib})
	f.awaitEvent(t, p, agentapi.ReasonStopRequested)
	eventually(t, "many processes", func() bool { return f.forks(t) > began+floodForks },
		func() string { return fmt.Sprintf("%d in all", f.forks(t)-began) })
	if h := f.inspect(t, p).Heartbeat; h == nil || h.Age == nil {
		t.Errorf("the heartbeat of the pod that floods is %+v, want one that came", h)
	}
}

// forks is how many processes and threads the node has started since its boot.
func (f fixture) forks(t *testing.T) int64 {
	t.Helper()
	return f.number(t, f.output(t, "sed", "-n", "s/^processes //p", "/proc/stat"))
}

// agentMemory is the agent's resident memory in bytes.
func (f fixture) agentMemory(t *testing.T) int64 {
	t.Helper()
	text := f.output(t, "sed", "-n", "s/^VmRSS:\\(.*\\) kB/\\1/p", "/proc/"+f.agentPid(t)+"/status")
	return f.number(t, text) << 10
}

func (fixture) number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// terminated is how many VM processes the agent has sent SIGTERM.
func (f fixture) terminated(t *testing.T) float64 {
	t.Helper()
	return f.count(t, `mooring_vm_actions_total{action="terminate",status="ok"}`)
}
