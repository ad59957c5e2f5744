package suite

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/plugin"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/agent"
	"github.com/mooring-vm/mooring/integration/cri"
)

// stopAgent stops the agent. The returned function starts it again.
func (f fixture) stopAgent(t *testing.T) (start func()) {
	t.Helper()
	if err := f.agent.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	return func() {
		t.Helper()
		once.Do(func() { f.startAgent(t) })
	}
}

func (f fixture) startAgent(t *testing.T) {
	t.Helper()
	if err := f.agent.Start(t.Context()); err != nil {
		t.Errorf("restarting the agent: %v", err)
	}
}

// The launchers of this test require the plugin.
func TestCoreWithoutTheAgent(t *testing.T) {
	claim(t, "Agent stopped; a launcher requires it")
	f := setUp(t)
	annotations := map[string]string{
		api.RequiresLockKey:              "true",
		plugin.RequiredPluginsAnnotation: `["mooring"]`,
	}
	start := f.stopAgent(t)
	defer start()
	p := launcher(annotations)
	created := f.createWithoutAgent(t, p)
	i := f.run(t, plain(), cri.Container{MemoryLimit: gib})
	if got := f.memlock(t, i); got != both(8*mib) {
		t.Errorf("the plain pod has %s", got)
	}
	start()
	i = f.run(t, launcher(annotations), cri.Container{MemoryLimit: gib})
	if got, want := f.memlock(t, i), both(gib); got != want {
		t.Errorf("with the agent back the kernel has %s, want %s", got, want)
	}
	if created == nil {
		outcome(t, refused)
		return
	}
	f.awaitRepair(t, p, created, both(gib), 0) // a new agent starts to count at 0
	outcome(t, slipped)
}

// Outcomes of the creation of a launcher while the agent does not answer.
const (
	refused = "refused"
	slipped = "created without its limits, repaired when the agent is back"
)

// createWithoutAgent creates a launcher that requires the agent, while the agent is away. A
// runtime with a validator refuses the launcher: then the result is nil.
func (f fixture) createWithoutAgent(t *testing.T, p cri.Pod) *cri.Instance {
	t.Helper()
	c := cri.Container{MemoryLimit: gib}
	if !f.runtime(t).features(t).validator {
		i := f.run(t, p, c)
		if got := f.memlock(t, i); got != both(8*mib) {
			t.Errorf("without an agent, the launcher started with %s", got)
		}
		return i
	}
	if msg := f.refused(t, p, c); !strings.Contains(msg, `required plugin "mooring" not present`) {
		t.Errorf("refused for another reason: %s", msg)
	}
	return nil
}

// The launcher does not require the plugin, so it starts while the agent is away.
func TestCoreLauncherWithoutLimitIsRepaired(t *testing.T) {
	claim(t, "Agent stopped; a launcher does not require it")
	outcome(t, slipped)
	f := setUp(t)
	start := f.stopAgent(t)
	defer start()
	p := launcher(map[string]string{api.RequiresLockKey: "true", api.ValueKey: "1Gi"})
	i := f.run(t, p, cri.Container{MemoryLimit: gib,
		Args: []string{"sh", "-c", "sleep 2147483647 & exec sleep 2147483647"}})
	if got := f.memlock(t, i); got != both(8*mib) {
		t.Fatalf("without an agent, the launcher started with %s", got)
	}
	start()
	s := f.awaitSetting(t, p, agentapi.MemlockSetting, agentapi.StatusRepaired)
	if got, want := f.memlock(t, i), both(2*gib); got != want {
		t.Errorf("the kernel has %s, the agent says %+v, want %s", got, s, want)
	}
	f.checkAllProcesses(t, i, both(2*gib))
	f.awaitEvent(t, p, agentapi.ReasonLimitRepaired)
	if n := f.metric(t, `mooring_events_total{reason="LimitRepaired"`); n == "" || n == "0" {
		t.Errorf("the metric counts %q repairs", n)
	}
}

func (f fixture) checkAllProcesses(t *testing.T, i *cri.Instance, want string) {
	t.Helper()
	pids := strings.Fields(f.cgroup(t, i, "cgroup.procs"))
	if len(pids) < 2 {
		t.Fatalf("the container has the processes %v, want at least two", pids)
	}
	for _, pid := range pids {
		if got := f.output(t, "prlimit", "--memlock", "--output=SOFT,HARD", "--noheadings", "--raw",
			"--pid="+pid); got != want {
			t.Errorf("process %s has %s, want %s", pid, got, want)
		}
	}
}

func TestRestartedAgentKnowsItsLaunchers(t *testing.T) {
	f := setUp(t)
	p := launcher(map[string]string{api.RequiresLockKey: "true", api.ValueKey: "1Gi"})
	i := f.run(t, p, cri.Container{MemoryLimit: gib})
	f.awaitSetting(t, p, agentapi.MemlockSetting, agentapi.StatusApplied)
	killAndAwaitAgent(t, f)
	f.awaitSetting(t, p, agentapi.MemlockSetting, agentapi.StatusApplied)
	if got := f.memlock(t, i); got != both(2*gib) {
		t.Errorf("the running launcher has %s", got)
	}
	next := f.run(t, launcher(map[string]string{api.RequiresLockKey: "true"}),
		cri.Container{MemoryLimit: gib})
	if got := f.memlock(t, next); got != both(gib) {
		t.Errorf("the next launcher has %s", got)
	}
}

func (f fixture) agentPid(t *testing.T) string {
	t.Helper()
	pid, err := f.agent.Pid(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// restartContainerd restarts containerd and waits until the agent has a new connection. Right
// after the restart, the agent may still report readiness.
func (f fixture) restartContainerd(t *testing.T) {
	t.Helper()
	before := f.synchronizations(t)
	if err := f.agent.RestartContainerd(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.awaitReconnect(t, before)
}

// awaitReconnect waits until the agent has made more connections than before.
func (f fixture) awaitReconnect(t *testing.T, before float64) {
	t.Helper()
	eventually(t, "the agent to reconnect", func() bool { return f.synchronizations(t) > before },
		func() string { return fmt.Sprintf("%v connections", f.synchronizations(t)) })
	if err := f.agent.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (f fixture) synchronizations(t *testing.T) float64 {
	t.Helper()
	return f.count(t, "mooring_nri_synchronizations_total ")
}

func TestCoreContainerdRestartLeavesTheAgentAlive(t *testing.T) {
	claim(t, "The agent reconnects to a restarted runtime and finds its launchers")
	f := setUp(t)
	p := launcher(map[string]string{api.RequiresLockKey: "true", api.ValueKey: "1Gi"})
	f.run(t, p, cri.Container{MemoryLimit: gib})
	before := f.agentPid(t)
	f.restartContainerd(t)
	if after := f.agentPid(t); after != before {
		t.Errorf("the agent is process %s, want %s as before", after, before)
	}
	f.awaitSetting(t, p, agentapi.MemlockSetting, agentapi.StatusApplied)
	next := f.run(t, launcher(map[string]string{api.RequiresLockKey: "true"}),
		cri.Container{MemoryLimit: gib})
	if got := f.memlock(t, next); got != both(gib) {
		t.Errorf("the next launcher has %s", got)
	}
}

// Without containerd, the agent is healthy but not ready.
func TestReadinessFollowsContainerd(t *testing.T) {
	f := setUp(t)
	f.output(t, "systemctl", "stop", "containerd.service")
	defer func() {
		f.output(t, "systemctl", "start", "containerd.service")
		if err := f.agent.WaitReady(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	eventually(t, "the agent not to be ready",
		func() bool { return f.agent.Ready(t.Context()) != nil }, func() string { return "ready" })
	if err := f.agent.Healthy(t.Context()); err != nil {
		t.Errorf("the agent is not healthy: %v", err)
	}
}

// runc fails at the start, after the creation of the container.
func TestCoreFailedStartReleasesMemory(t *testing.T) {
	claim(t, "A launcher that fails to start leaves the node's account")
	f := setUp(t)
	before := f.granted(t)
	s := f.sandbox(t, launcher(map[string]string{api.RequiresLockKey: "true", api.ValueKey: "1Gi"}))
	i, err := s.Create(t.Context(), cri.Container{Name: "compute", MemoryLimit: gib,
		Args: []string{"/no/such/program"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.granted(t); got != before+gib { // its memory limit; the node has no huge pages
		t.Errorf("the account has %d bytes, want %d more than %d", got, gib, before)
	}
	if err := i.Start(t.Context()); err == nil {
		t.Fatal("a nonexistent program was started")
	}
	if err := i.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the memory to be released", func() bool { return f.granted(t) == before },
		func() string { return "still granted" })
}

func (f fixture) granted(t *testing.T) int64 {
	t.Helper()
	n, err := f.agent.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n.Memlock.Granted
}

func TestObserveModeChangesNothing(t *testing.T) {
	f := setUpWith(t, strings.Replace(policy, "mode: enforce", "mode: observe", 1))
	good := launcher(map[string]string{api.RequiresLockKey: "true",
		"memory.high" + api.CgroupSuffix: "512Mi"})
	i := f.run(t, good, cri.Container{MemoryLimit: gib})
	if got := f.memlock(t, i); got != both(8*mib) {
		t.Errorf("the memory-lock limit is %s", got)
	}
	if got := f.cgroup(t, i, "memory.high"); got != "max" {
		t.Errorf("memory.high is %s", got)
	}
	if _, err := i.Exec(t.Context(), "ls", "/run/mooring"); err == nil {
		t.Error("the pod directory is mounted")
	}
	f.awaitSetting(t, good, agentapi.MemlockSetting, agentapi.StatusObserved)
	f.awaitEvent(t, good, agentapi.ReasonWouldSet)
	bad := launcher(map[string]string{api.ValueKey: "1e30"})
	f.run(t, bad, cri.Container{MemoryLimit: gib})
	f.awaitEvent(t, bad, agentapi.ReasonWouldRefuse)
}

func TestCoreRemovedPodIsForgotten(t *testing.T) {
	claim(t, "The agent forgets a removed pod")
	f := setUp(t)
	p := launcher(map[string]string{api.RequiresLockKey: "true"})
	s := f.sandbox(t, p)
	if _, err := s.Run(t.Context(), cri.Container{Name: "compute", MemoryLimit: gib}); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent to forget the launcher", func() bool {
		_, err := f.agent.Launchers(t.Context(), p.Namespace, p.Name)
		return errors.Is(err, agent.ErrNotFound)
	}, func() string { return "still known" })
}
