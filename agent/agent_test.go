package agent

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/cli"
)

// TestAgentFollowsALauncher follows a launcher from its creation to the agent's end. The test
// runtime does not apply the agent's adjustment, so the kernel has another limit.
func TestAgentFollowsALauncher(t *testing.T) {
	config := testConfig(t)
	a := start(t, config)
	if status, body := a.get(t, "/readyz"); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, config.NRISocket) {
		t.Errorf("/readyz without a runtime: %d %q, want 503 and the socket", status, body)
	}
	runtime := startRuntime(t, config.NRISocket)
	a.waitReady(t)
	runtime.BlockPluginSync().Unblock()

	pod := testPod("vms", "vm-1", map[string]string{"requires-lock.memlock.mooring.dev": "true",
		"value.memlock.mooring.dev": "1Gi"})
	ctr := testContainer(pod)
	adjust, err := create(runtime, pod, ctr)
	if err != nil {
		t.Fatal(err)
	}
	limits := adjust.GetRlimits()
	if len(limits) != 1 || limits[0].GetHard() != 5<<30 || limits[0].GetSoft() != 5<<30 {
		t.Fatalf("rlimits %v, want RLIMIT_MEMLOCK of 5 GiB", limits)
	}
	process, _ := runIn(t, makeCgroup(t, config.Cgroup, ctr.GetId()), "sleep", "1000")
	ctr.Pid, ctr.State = uint32(process.Process.Pid), nri.ContainerState_CONTAINER_RUNNING
	err = runtime.PostStartContainer(context.Background(),
		&nri.PostStartContainerRequest{Pod: pod, Container: ctr})
	if err != nil {
		t.Fatal(err)
	}

	// Stopping waits for the check of the launcher that has just started.
	if err := a.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	launchers := a.Launchers()
	if len(launchers) != 1 || launchers[0].Settings[0].Status != agentapi.StatusDiffers {
		t.Errorf("launchers %+v, want one that differs", launchers)
	}
	if code, _, _ := a.mooring("ps"); code != cli.ExitNotRunning {
		t.Errorf("mooring ps after the agent's end: exit code %d, want %d", code,
			cli.ExitNotRunning)
	}
}

func TestAgentReportsARefusal(t *testing.T) {
	config := testConfig(t)
	runtime := startRuntime(t, config.NRISocket)
	a := start(t, config)
	a.waitReady(t)
	runtime.BlockPluginSync().Unblock()

	pod := testPod("vms", "greedy", map[string]string{"requires-lock.memlock.mooring.dev": "true",
		"value.memlock.mooring.dev": "100Gi"})
	if _, err := create(runtime, pod, testContainer(pod)); err == nil ||
		!strings.Contains(err.Error(), "16Gi") {
		t.Errorf("creation: %v, want a refusal that names the ceiling", err)
	}
	code, out, errOut := a.mooring("inspect", "vms/greedy")
	if code != cli.ExitOK || !strings.Contains(out, "Refused") || !strings.Contains(out, "104Gi") {
		t.Errorf("mooring inspect: exit code %d\n%s%s", code, out, errOut)
	}
	code, out, _ = a.mooring("version")
	if code != cli.ExitOK || !strings.Contains(out, "testruntime v1.2.3") ||
		!strings.Contains(out, "0 of 64Gi") {
		t.Errorf("mooring version: exit code %d\n%s", code, out)
	}
	_, body := a.get(t, "/metrics")
	for _, want := range []string{
		`mooring_events_total{reason="MemlockRefused",type="Warning"} 1`,
		`mooring_nri_requests_total{method="CreateContainer",status="refused"} 1`,
		`mooring_launchers{state="Refused"} 1`,
		`mooring_nri_synchronized 1`,
		`mooring_policy_info{mode="enforce"} 1`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

func TestAgentEndsWhenAPartFails(t *testing.T) {
	config := testConfig(t)
	a := start(t, config)
	eventually(t, "the agent's start",
		func() bool { return strings.Contains(a.log.String(), "the agent starts") })
	a.listeners.side.Close()
	eventually(t, "the agent's end",
		func() bool { return strings.Contains(a.log.String(), "the agent stops") })
	if err := a.stop(); err == nil {
		t.Error("Run returned no error")
	}
	a.stop = func() error { return nil }
	if _, err := os.Lstat(filepath.Join(config.Root, socketName)); err == nil {
		t.Error("the socket is still there")
	}
}

func TestNewFails(t *testing.T) {
	good := testConfig(t)
	tests := map[string]struct {
		change func(*Config)
		want   string
	}{
		"no policy": {func(c *Config) { c.Policy += "-missing" }, "policy.yaml-missing"},
		"no tmpfs": {func(c *Config) { c.Root = filepath.Dir(c.Policy) },
			"mooring-agent prepare"},
		"no cgroup v2":  {func(c *Config) { c.Cgroup = c.Root }, "cgroup"},
		"no such index": {func(c *Config) { c.PluginIndex = "9" }, "index"},
		"no such address": {func(c *Config) { c.Listen = "127.0.0.1:none" },
			`--listen "127.0.0.1:none"`},
		"no kubeconfig": {func(c *Config) { c.Kubeconfig = c.Policy + "-missing" },
			"policy.yaml-missing"},
		"hooks without pods": {func(c *Config) { c.NodeHookSocket = c.Policy + ".sock" },
			"policy.yaml.sock\": want --kubeconfig, too"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			config := good
			tt.change(&config)
			_, err := New(t.Context(), config, testBuild, discard)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	// None of the failed agents may still hold the socket.
	a, err := New(t.Context(), good, testBuild, discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.close(); err != nil {
		t.Error(err)
	}
}
