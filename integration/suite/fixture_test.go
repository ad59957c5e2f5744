// Package suite tests on a real node: real containerd with NRI, runc, cgroup v2 and every
// capability. All tests share one node. Each test has pods of its own.
package suite

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/agent"
	"github.com/mooring-vm/mooring/integration/cri"
	"github.com/mooring-vm/mooring/integration/node"
)

//go:embed testdata/policy.yaml
var policy string

const (
	namespace = "vms"
	mib       = int64(1) << 20
	gib       = int64(1) << 30
)

func TestMain(m *testing.M) { os.Exit(node.Main(m)) }

// fixture is a node with the agent on it.
type fixture struct {
	node.Node
	agent *agent.Agent
	cri   *cri.Client
}

var installed = sync.OnceValues(func() (*agent.Agent, error) {
	n, err := node.Shared()
	if err != nil {
		return nil, err
	}
	return agent.Install(context.Background(), n, "../..", policy)
})

// setUp returns the shared node with the agent running under the suite's policy.
func setUp(t *testing.T) fixture {
	t.Helper()
	return setUpWith(t, policy)
}

// setUpWith is setUp with another policy, until the next call.
func setUpWith(t *testing.T, policy string) fixture {
	t.Helper()
	f := withoutSetUp(t)
	var err error
	f.agent, err = installed()
	f.checkInstallation(t, err)
	if err := errors.Join(f.agent.SetPolicy(t.Context(), policy),
		f.agent.WaitReady(t.Context())); err != nil {
		t.Fatal(err)
	}
	return f
}

// checkInstallation checks the error of deploy/install.sh. On a runtime without a validator,
// the script installs the agent and then fails.
func (f fixture) checkInstallation(t *testing.T, err error) {
	t.Helper()
	noValidator := errors.Is(err, agent.ErrNoValidator)
	if err != nil && !noValidator {
		t.Fatal(err)
	}
	if has := f.runtime(t).features(t).validator; has == noValidator {
		t.Fatalf("installing ended with %v, and required plugins are heeded: %v", err, has)
	}
}

// launcher returns a pod that the policy recognises as a launcher.
func launcher(annotations map[string]string) cri.Pod {
	p := plain()
	p.Labels = map[string]string{"kubevirt.io": "virt-launcher"}
	p.Annotations = annotations
	return p
}

// plain returns a pod without a VM.
func plain() cri.Pod {
	uid := uuid.NewString()
	return cri.Pod{Namespace: namespace, Name: "pod-" + uid[:8], UID: uid,
		Handler: os.Getenv(handlerEnv)}
}

// sandbox runs a pod until the end of the test.
func (f fixture) sandbox(t *testing.T, p cri.Pod) *cri.Sandbox {
	t.Helper()
	s, err := f.cri.RunPod(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
		defer cancel()
		if err := s.Remove(ctx); err != nil && !errors.Is(err, node.ErrLost) {
			t.Errorf("cleaning up: %v", err)
		}
	})
	return s
}

// run runs a pod with one container called compute.
func (f fixture) run(t *testing.T, p cri.Pod, c cri.Container) *cri.Instance {
	t.Helper()
	c.Name = "compute"
	i, err := f.sandbox(t, p).Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// refused runs a pod, expects the refusal of its container, and returns the error message.
func (f fixture) refused(t *testing.T, p cri.Pod, c cri.Container) string {
	t.Helper()
	c.Name = "compute"
	_, err := f.sandbox(t, p).Create(t.Context(), c)
	if err == nil {
		t.Fatal("the container was created")
	}
	return err.Error()
}

// memlock returns RLIMIT_MEMLOCK of a container's first process: "SOFT HARD", in bytes or
// "unlimited".
func (f fixture) memlock(t *testing.T, i *cri.Instance) string {
	t.Helper()
	return f.output(t, "prlimit", "--memlock", "--output=SOFT,HARD", "--noheadings", "--raw",
		fmt.Sprintf("--pid=%d", f.pid(t, i)))
}

// both returns equal soft and hard limits in the form of memlock.
func both(bytes int64) string { return fmt.Sprintf("%d %d", bytes, bytes) }

func (f fixture) pid(t *testing.T, i *cri.Instance) int {
	t.Helper()
	pid, err := i.Pid(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// cgroup reads a file of a container's cgroup.
func (f fixture) cgroup(t *testing.T, i *cri.Instance, file string) string {
	t.Helper()
	return f.output(t, "sh", "-c",
		fmt.Sprintf("cat /sys/fs/cgroup$(sed -n s/^0:://p /proc/%d/cgroup)/%s", f.pid(t, i), file))
}

func (f fixture) output(t *testing.T, args ...string) string {
	t.Helper()
	out, err := f.Output(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// inspect returns the agent's state of a pod's only launcher.
func (f fixture) inspect(t *testing.T, p cri.Pod) agentapi.Launcher {
	t.Helper()
	ls, err := f.agent.Launchers(t.Context(), p.Namespace, p.Name)
	if err != nil {
		t.Fatal(err)
	}
	if len(ls) != 1 {
		t.Fatalf("the agent knows %d launchers of pod %s, want 1", len(ls), p.Name)
	}
	return ls[0]
}

// awaitSetting waits until a setting of a pod's launcher has one of the statuses.
func (f fixture) awaitSetting(t *testing.T, p cri.Pod, name string,
	status agentapi.Status) agentapi.Setting {
	t.Helper()
	var last agentapi.Setting
	eventually(t, fmt.Sprintf("setting %s to be %s", name, status), func() bool {
		for _, s := range f.inspect(t, p).Settings {
			if s.Name == name {
				last = s
			}
		}
		return last.Status == status
	}, func() string { return fmt.Sprintf("%+v", last) })
	return last
}

// waitTimeout bounds waits for events that take moments on real hardware: the node is
// emulated, and may share the processors.
const waitTimeout = 5 * time.Minute

// eventually polls until done returns true. It fails the test after waitTimeout.
func eventually(t *testing.T, what string, done func() bool, last func() string) {
	t.Helper()
	within(t, waitTimeout, what, done, last)
}

func within(t *testing.T, timeout time.Duration, what string, done func() bool,
	last func() string) {
	t.Helper()
	for deadline := time.Now().Add(timeout); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s; last: %s", what, last())
		}
	}
}

// metric returns the value of the first series of the agent's metrics with this prefix, or "".
func (f fixture) metric(t *testing.T, prefix string) string {
	t.Helper()
	text, err := f.agent.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			return strings.TrimSpace(line[strings.LastIndex(line, " ")+1:])
		}
	}
	return ""
}

// count is metric as a number. A missing series counts as 0.
func (f fixture) count(t *testing.T, prefix string) float64 {
	t.Helper()
	text := f.metric(t, prefix)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatalf("metric %s: %v", prefix, err)
	}
	return n
}

// with returns annotations and more together.
func with(annotations map[string]string, more map[string]string) map[string]string {
	all := maps.Clone(annotations)
	maps.Copy(all, more)
	return all
}
