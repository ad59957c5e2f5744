package agent

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

// stopRequested is a pod with a VM process and a stop handler. Its launcher has just ended.
type stopRequested struct {
	*running
	stops   <-chan podapi.Stop
	process *os.Process
	gone    <-chan struct{}
	status  func() syscall.WaitStatus // after gone is closed
}

func requestStop(t *testing.T, gracePeriod string) *stopRequested {
	t.Helper()
	config := testConfig(t)
	policy := strings.Replace(testPolicy, "mode: enforce\n",
		"mode: enforce\nlifecycle: {gracePeriod: "+gracePeriod+"}\n", 1)
	if err := os.WriteFile(config.Policy, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	a, runtime := startTracking(t, config)
	l := launch(t, config, runtime, "vm")
	vm, gone := runIn(t, l.cgroup, emulator(t), "1000")
	a.awaitPhase(t, "vm", agentapi.PhaseActive, 1)
	stops := a.client(t, l.pod.GetUid()).Stops(t.Context())
	if stop := receive(t, stops, "the pod's first state"); stop.Requested {
		t.Errorf("a stop request although the launcher lives: %+v", stop)
	}
	if err := l.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if stop := receive(t, stops, "a stop request"); !stop.Requested ||
		stop.Reason != "the launcher is gone" {
		t.Errorf("stop request %+v", stop)
	}
	status := func() syscall.WaitStatus { return vm.ProcessState.Sys().(syscall.WaitStatus) }
	return &stopRequested{a, stops, vm.Process, gone, status}
}

// The agent first sends a stop request, and waits for the grace period.
func TestPodEndsItsVM(t *testing.T) {
	a := requestStop(t, "10m")
	wantAlive(t, a.gone, "the VM process")
	if err := a.process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-a.gone
	if got := a.status().Signal(); got != syscall.SIGINT {
		t.Errorf("the VM process ended by %v", got)
	}
	a.awaitPhase(t, "vm", agentapi.PhaseDone, 0)
	if stop := receive(t, a.stops, "the end of the request"); stop.Requested {
		t.Errorf("stop request %+v", stop)
	}
	if text := a.log.String(); strings.Contains(text, string(agentapi.ReasonVMTerminated)) ||
		!strings.Contains(text, string(agentapi.ReasonVMShutdown)) {
		t.Error("want the VM's shutdown in the log, and no SIGTERM")
	}
}

// After the grace period the agent sends SIGTERM.
func TestPodIgnoresTheRequest(t *testing.T) {
	a := requestStop(t, "15s")
	<-a.gone
	if got := a.status().Signal(); got != syscall.SIGTERM {
		t.Errorf("the VM process ended by %v, want SIGTERM", got)
	}
	a.awaitPhase(t, "vm", agentapi.PhaseDone, 0)
	shutdown, term, ok := strings.Cut(a.log.String(), string(agentapi.ReasonVMTerminated))
	if !ok || !strings.Contains(shutdown, string(agentapi.ReasonVMShutdown)) ||
		strings.Contains(term, string(agentapi.ReasonVMShutdown)) {
		t.Error("want the VM's shutdown in the log, and SIGTERM after that")
	}
}
