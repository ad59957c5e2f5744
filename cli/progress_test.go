package cli

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
)

// lockedBuffer is a buffer for concurrent use.
type lockedBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// await returns when the buffer has text. It reports a failure after ten seconds.
func (b *lockedBuffer) await(t *testing.T, text string) {
	for end := time.Now().Add(10 * time.Second); !strings.Contains(b.String(), text); {
		if time.Now().After(end) {
			t.Errorf("no progress %q: %s", text, b.String())
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestProgressOfReads answers a read only after the command has reported its progress.
func TestProgressOfReads(t *testing.T) {
	for command, want := range map[string]string{
		"status": "reading the status from http://", "ps": "reading the launchers from http://",
		"top": "reading the launchers from http://", "inspect a": "reading the launchers from http://",
		"doctor --all-nodes": "reading the nodes from http://",
	} {
		t.Run(command, func(t *testing.T) {
			var out, errOut lockedBuffer
			answers := oneNode()
			states := answers[statesPath]
			answers[statesPath] = func() any {
				errOut.await(t, want)
				return states
			}
			serveCluster(t, answers)
			runImpatiently(t, &out, &errOut, strings.Fields(command)...)
		})
	}
}

// runImpatiently runs `kubectl mooring` with progress every millisecond.
func runImpatiently(t *testing.T, out, errOut *lockedBuffer, args ...string) int {
	t.Helper()
	program := &Program{Name: "kubectl-mooring", Out: out, ErrOut: errOut,
		Now: func() time.Time { return now }, progressPeriod: time.Millisecond}
	return program.Run(t.Context(), args)
}

// TestProgressOfQuotaStatus answers the first read only after progress.
func TestProgressOfQuotaStatus(t *testing.T) {
	var out, errOut lockedBuffer
	const pods = "/api/v1/namespaces/vms/pods"
	serveCluster(t, map[string]any{pods: func() any {
		errOut.await(t, "reading the quotas of namespace vms from http://")
		return failure(500, "InternalError", "away")
	}})
	runImpatiently(t, &out, &errOut, "quota", "status", "vms")
}

// TestProgressOfVerify expects the last error of the part that verify waits for.
func TestProgressOfVerify(t *testing.T) {
	var out, errOut lockedBuffer
	replicas := int32(0)
	serveCluster(t, map[string]any{
		"/apis/apps/v1/namespaces/mooring-system/deployments/mooring-controller": func() any {
			d := deployment("mooring-controller", replicas)
			d.TypeMeta = deploymentList().TypeMeta
			d.Kind = "Deployment"
			replicas = 2
			return d
		}})
	code := runImpatiently(t, &out, &errOut, "verify", "--parts=controller")
	if want := "waiting for controller: Deployment mooring-controller: 0 of 2 replicas are ready\n"; code !=
		ExitOK || !strings.Contains(errOut.String(), want) || out.String() != "controller: ok\n" {
		t.Errorf("exit code %d, want %q: %s%s", code, want, out.String(), errOut.String())
	}
}

// TestProgressOfNodeConfigure expects the program that the command waits for.
func TestProgressOfNodeConfigure(t *testing.T) {
	var errOut lockedBuffer
	program := &Program{ErrOut: &errOut, progressPeriod: time.Millisecond}
	run := program.withProgress(func(context.Context, string, ...string) (string, error) {
		errOut.await(t, "waiting for /bin/systemctl restart containerd\n")
		return "output", nil
	})
	if out, err := run(t.Context(), "/bin/systemctl", "restart", "containerd"); out != "output" ||
		err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

// TestProgressOfResize names the step that the pod has not reported yet.
func TestProgressOfResize(t *testing.T) {
	var out bytes.Buffer
	shown := newProgress(&out)
	if got := shown.current(); got != "waiting for a report from the pod" {
		t.Errorf("%q", got)
	}
	r := podapi.Report{Generation: 1, Plan: []string{"grow memory", "add vCPUs"}}
	for _, c := range []struct {
		step podapi.Step
		want string
	}{
		{podapi.Step{Description: "grow memory"}, "waiting for step 2 of 2: add vCPUs"},
		{podapi.Step{Description: "add vCPUs"}, "waiting for the end of the resize"},
		{podapi.Step{Description: "shrink memory", Rollback: true}, "waiting for the rollback"},
	} {
		r.Steps = append(r.Steps, c.step)
		if _, err := shown.show(r); err != nil {
			t.Fatal(err)
		}
		if got := shown.current(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
