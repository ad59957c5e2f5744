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

// flood causes as much work for the agent as a pod can: it touches its files, forks and
// executes without pause.
const flood = `while :; do touch /run/mooring/pod/stop /run/mooring/pod/heartbeat; done &
while :; do (:); done &
while :; do /bin/busybox true; done`

const (
	// floodForks is the number of processes that the flood starts before the test continues.
	floodForks = 3000
	// floodMemory bounds the growth of the agent's memory by a flood.
	floodMemory = 64 * mib
)

// During the flood of one pod, the agent still finds the VM of another pod, and stops it after
// the end of its launcher. The agent's memory stays bounded.
func TestFloodingPod(t *testing.T) {
	f := setUpVMs(t)
	agent, before := f.agentPid(t), f.agentMemory(t)
	f.runFlood(t)
	v := f.runLaunchers(t, placements()[2:3], vmOptions{script: careless})[0]
	f.awaitPhase(t, v, agentapi.PhaseRegistered)
	if err := f.start(t.Context(), v, asDaemon); err != nil {
		t.Fatal(err)
	}
	f.awaitVM(t, v, agentapi.VMRunning)
	f.moveElsewhere(t, v) // the runtime does not find it there
	stopped := f.terminated(t)
	each(t, []*vm{v}, func(ctx context.Context, v *vm) error {
		return f.signal(ctx, "KILL", v.launcherProcess)
	})
	f.awaitEnd(t, v.launcherProcess)
	f.awaitEnd(t, v.vmProcess)
	f.awaitTieRemoved(t, v)
	if got := f.terminated(t); got <= stopped {
		t.Errorf("the agent has ended %v VM processes, as before: it has not ended this one", got)
	}
	if now := f.agentPid(t); now != agent {
		t.Errorf("the agent is process %s, want %s as before", now, agent)
	}
	after := f.agentMemory(t)
	t.Logf("the agent has %d MiB, before the flood %d", after/mib, before/mib)
	if after > before+floodMemory {
		t.Errorf("the agent has %d MiB more than before, want at most %d", (after-before)/mib,
			floodMemory/mib)
	}
}

// runFlood runs a launcher that floods the agent until the test ends. It waits for the first
// effects on the agent.
func (f fixture) runFlood(t *testing.T) {
	t.Helper()
	before := f.forks(t)
	p := launcher(map[string]string{api.WatchdogKey: "10m"})
	f.run(t, p, cri.Container{Args: []string{"sh", "-c", flood}, MemoryLimit: gib})
	f.awaitEvent(t, p, agentapi.ReasonStopRequested)
	eventually(t, "many processes", func() bool { return f.forks(t) > before+floodForks },
		func() string { return fmt.Sprintf("%d in all", f.forks(t)-before) })
	if h := f.inspect(t, p).Heartbeat; h == nil || h.Age == nil {
		t.Errorf("heartbeat %+v of the flooding pod, want one with an age", h)
	}
}

// forks returns the number of processes and threads that the node has started since its boot.
func (f fixture) forks(t *testing.T) int64 {
	t.Helper()
	return f.number(t, f.output(t, "sed", "-n", "s/^processes //p", "/proc/stat"))
}

// agentMemory returns the agent's resident memory in bytes.
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

// terminated returns the number of VM processes that the agent has sent SIGTERM.
func (f fixture) terminated(t *testing.T) float64 {
	t.Helper()
	return f.count(t, `mooring_vm_actions_total{action="terminate",status="ok"}`)
}
