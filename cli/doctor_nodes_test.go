package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/agent/doctor"
	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// startFleet serves states of nodes and pods of agents to the CLI.
func startFleet(t *testing.T, states []v1alpha1.NodeState, pods []corev1.Pod) {
	t.Helper()
	serveCluster(t, fleetAnswers(states, pods))
}

// fleetAnswers returns the answers of a cluster without DaemonSets and Deployments.
func fleetAnswers(states []v1alpha1.NodeState, pods []corev1.Pod) map[string]any {
	return map[string]any{
		statesPath: stateList(states),
		podsOfAll: corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
			Items: pods},
		daemonSetsPath:  daemonSetList(),
		deploymentsPath: deploymentList(),
	}
}

// Paths of lists of all namespaces.
const (
	statesPath      = "/apis/mooring.dev/v1alpha1/nodestates"
	podsOfAll       = "/api/v1/pods"
	daemonSetsPath  = "/apis/apps/v1/daemonsets"
	deploymentsPath = "/apis/apps/v1/deployments"
)

func stateList(states []v1alpha1.NodeState) v1alpha1.NodeStateList {
	return v1alpha1.NodeStateList{TypeMeta: metav1.TypeMeta{APIVersion: "mooring.dev/v1alpha1",
		Kind: "NodeStateList"}, Items: states}
}

// serveCluster serves an answer for each path, and 404 for all other paths. Its clock
// is right. A *metav1.Status is a refusal, and a func() any returns the answer to each request.
func serveCluster(t *testing.T, answers map[string]any) {
	t.Helper()
	serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Date", now.Format(http.TimeFormat))
		if read, ok := answer.(func() any); ok {
			answer = read()
		}
		if status, refused := answer.(*metav1.Status); refused {
			w.WriteHeader(int(status.Code))
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
}

// serveHandler makes an API server the cluster of KUBECONFIG.
func serveHandler(t *testing.T, handler http.Handler) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "config")
	config := "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: " +
		"{cluster: a, user: a}}], users: [{name: a, user: {}}], clusters: [{name: a, cluster: " +
		"{server: '" + server.URL + "'}}]}"
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
}

func stateOf(name string, age time.Duration, inPod bool) v1alpha1.NodeState {
	n := v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.HeartbeatTime = metav1.NewTime(now.Add(-age))
	n.Status.Node.InPod = inPod
	n.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady,
		Status: metav1.ConditionTrue}}
	return n
}

func agentPod(node string, phase corev1.PodPhase) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "mooring-system",
		Name: "mooring-agent-" + node}, Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: phase}}
}

// TestNodeWithoutAgent distinguishes a node that lost its agent on purpose from a silent one.
func TestNodeWithoutAgent(t *testing.T) {
	startFleet(t, []v1alpha1.NodeState{stateOf("drained", time.Hour, true),
		stateOf("failed", time.Hour, true), stateOf("fresh", 0, true),
		stateOf("unit", time.Hour, false)},
		[]corev1.Pod{agentPod("failed", corev1.PodFailed), agentPod("fresh", corev1.PodRunning)})
	var out, errOut bytes.Buffer
	program := testProgram(&out, &errOut)
	program.Name = "kubectl-mooring"
	program.Run(t.Context(), []string{"status", "-o", "json"})
	var s statusJSON
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatalf("%v: %s", err, errOut.String())
	}
	got := map[string]string{}
	for _, n := range s.Nodes {
		got[n.Node] = n.Status
	}
	for node, want := range map[string]string{"drained": answerNoAgent, "failed": answerNone,
		"fresh": answerReady, "unit": answerNone} {
		if got[node] != want {
			t.Errorf("%s: %s, want %s", node, got[node], want)
		}
	}
	if !strings.Contains(errOut.String(), "error: 1 of 3 nodes are ready") {
		t.Errorf("the node without an agent counts: %s", errOut.String())
	}
}

// TestStatusWithoutPods fails to read the agents' pods. A node that has a pod and no state yet
// would be missing, so status is not healthy.
func TestStatusWithoutPods(t *testing.T) {
	serveCluster(t, map[string]any{
		statesPath: stateList([]v1alpha1.NodeState{stateOf("fresh", 0, true)})})
	for args, want := range map[string]string{
		"status":                      "nodes without a state are not known",
		"status --wait --timeout 1ms": "waited for 1ms",
	} {
		var out, errOut bytes.Buffer
		program := testProgram(&out, &errOut)
		program.Name = "kubectl-mooring"
		if code := program.Run(t.Context(), strings.Fields(args)); code == ExitOK ||
			!strings.Contains(errOut.String(), want) {
			t.Errorf("%s: exit code %d: %s%s", args, code, out.String(), errOut.String())
		}
	}
}

// TestDoctorListsNodesWithoutAnswer names the reason of each.
func TestDoctorListsNodesWithoutAnswer(t *testing.T) {
	startFleet(t, []v1alpha1.NodeState{stateOf("drained", time.Hour, true),
		stateOf("unit", 0, false), stateOf("run", 0, true)},
		[]corev1.Pod{agentPod("new", corev1.PodPending), agentPod("run", corev1.PodRunning)})
	var out, errOut bytes.Buffer
	program := testProgram(&out, &errOut)
	if code := program.Run(t.Context(), []string{"doctor", "--all-nodes"}); code != ExitFailure {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{
		"new: no answer: the agent's pod mooring-system/mooring-agent-new is Pending\n",
		"unit: no answer: no pod of the agent: run `mooring doctor` on the node\n",
		"run: no answer: run a command in pod mooring-system/mooring-agent-run: ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}
	if !strings.Contains(errOut.String(), "nodes without an answer: 3 of 3") ||
		strings.Contains(out.String(), "drained") {
		t.Errorf("%s%s", out.String(), errOut.String())
	}
}

// TestFleetReport counts problems, and shows the worst nodes last.
func TestFleetReport(t *testing.T) {
	r := newFleetReport([]nodeFindings{
		{Node: "silent", Error: "Pending"},
		{Node: "bad", Problems: 2, Findings: []doctor.Finding{
			{Check: "nri", Status: doctor.Problem, Found: "off", Means: "m", Mend: "on"},
			{Check: "btf", Status: doctor.OK, Found: "there", Means: "m"}}},
		{Node: "good"},
	}, nil)
	if r.Problems != 2 || r.NoAnswer != 1 || r.problem() == nil {
		t.Errorf("%+v, %v", r, r.problem())
	}
	var out, errOut bytes.Buffer
	testProgram(&out, &errOut).writeReport(r)
	want := "good: problems found: 0\nbad: problems found: 2\nproblem  nri: off\n         m\n" +
		"         To mend it: on\nsilent: no answer: Pending\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if err := newFleetReport([]nodeFindings{{Node: "good"}}, nil).problem(); err != nil {
		t.Errorf("a healthy fleet: %v", err)
	}
}

func TestDoctorFlags(t *testing.T) {
	for _, args := range [][]string{{"doctor", "--all-nodes", "--host=/host"},
		{"doctor", "--context=a"}, {"doctor", "--host=relative"}} {
		if got := runOn(t, "", args...); got.code != ExitUsage {
			t.Errorf("%v: exit code %d: %s", args, got.code, got.errOut)
		}
	}
}

// TestProgress writes each change of the text once.
func TestProgress(t *testing.T) {
	var out, errOut bytes.Buffer
	ticks, stop := make(chan time.Time), make(chan struct{})
	texts := []string{"1 of 2", "1 of 2", "2 of 2"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		testProgram(&out, &errOut).writeProgress(ticks, stop, func() string {
			text := texts[0]
			texts = texts[1:]
			return text
		})
	}()
	for range 3 {
		ticks <- time.Time{}
	}
	close(stop)
	<-done
	if errOut.String() != "1 of 2\n2 of 2\n" {
		t.Errorf("%q", errOut.String())
	}
}
