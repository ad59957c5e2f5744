package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

func daemonSetList(all ...appsv1.DaemonSet) appsv1.DaemonSetList {
	return appsv1.DaemonSetList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1",
		Kind: "DaemonSetList"}, Items: all}
}

func deploymentList(all ...appsv1.Deployment) appsv1.DeploymentList {
	return appsv1.DeploymentList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1",
		Kind: "DeploymentList"}, Items: all}
}

func componentMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "mooring-system", Name: name, Generation: 2,
		Labels: map[string]string{"app.kubernetes.io/version": "v0.2.0"}}
}

func imageTemplate(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Image: image}}}}
}

func daemonSet(name string, ready int32) appsv1.DaemonSet {
	return appsv1.DaemonSet{ObjectMeta: componentMeta(name),
		Spec: appsv1.DaemonSetSpec{Template: imageTemplate("registry/agent:v0.2.0")},
		Status: appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 1,
			UpdatedNumberScheduled: 1, NumberReady: ready}}
}

func deployment(name string, ready int32) appsv1.Deployment {
	replicas := int32(2)
	return appsv1.Deployment{ObjectMeta: componentMeta(name),
		Spec: appsv1.DeploymentSpec{Replicas: &replicas,
			Template: imageTemplate("registry/controller:v0.2.0")},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 2, UpdatedReplicas: 2,
			ReadyReplicas: ready}}
}

// oneNode returns the answers of a cluster with one ready node and its agent.
func oneNode() map[string]any {
	answers := fleetAnswers([]v1alpha1.NodeState{stateOf("node-1", 0, true)},
		[]corev1.Pod{agentPod("node-1", corev1.PodRunning)})
	answers[daemonSetsPath] = daemonSetList(daemonSet("mooring-agent", 1),
		daemonSet("mooring-fence", 1))
	answers[deploymentsPath] = deploymentList(deployment("mooring-controller", 2))
	return answers
}

// runPlugin runs `kubectl mooring`.
func runPlugin(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	program := testProgram(&stdout, &stderr)
	program.Name = "kubectl-mooring"
	code = program.Run(t.Context(), args)
	return code, stdout.String(), stderr.String()
}

// TestStatusOfComponents expects an unready DaemonSet or Deployment to make the status unhealthy,
// although all nodes are ready.
func TestStatusOfComponents(t *testing.T) {
	for name, c := range map[string]struct {
		change func(answers map[string]any)
		code   int
		want   string // of the error output
	}{
		"healthy": {func(map[string]any) {}, ExitOK, ""},
		"no ready controller": {func(answers map[string]any) {
			answers[deploymentsPath] = deploymentList(deployment("mooring-controller", 0))
		}, ExitFailure, "error: Deployment mooring-controller: 0 of 2 replicas are ready\n"},
		"a controller with 0 replicas": {func(answers map[string]any) {
			d := deployment("mooring-controller", 0)
			*d.Spec.Replicas = 0
			answers[deploymentsPath] = deploymentList(d)
		}, ExitFailure, "error: Deployment mooring-controller: it has 0 replicas\n"},
		"no ready fence": {func(answers map[string]any) {
			answers[daemonSetsPath] = daemonSetList(daemonSet("mooring-fence", 0))
		}, ExitFailure, "error: DaemonSet mooring-fence: 0 of 1 nodes have a ready pod\n"},
		"an upgrade at its start": {func(answers map[string]any) {
			set := daemonSet("mooring-fence", 1)
			set.Generation = 3
			answers[daemonSetsPath] = daemonSetList(set)
		}, ExitFailure,
			"error: DaemonSet mooring-fence: no status of its present version yet\n"},
		"a node as well": {func(answers map[string]any) {
			answers[statesPath] = stateList([]v1alpha1.NodeState{stateOf("node-1", time.Hour, true)})
			answers[deploymentsPath] = deploymentList(deployment("mooring-controller", 1))
		}, ExitFailure, "error: 0 of 1 nodes are ready; Deployment mooring-controller: 1 of 2 " +
			"replicas are ready\n"},
		"no right to list Deployments": {func(answers map[string]any) {
			answers[deploymentsPath] = failure(http.StatusForbidden, metav1.StatusReasonForbidden,
				`deployments.apps is forbidden: User "eve" cannot list resource "deployments"`)
		}, ExitOK, `requires a role with the verb "list" for deployments.apps`},
	} {
		t.Run(name, func(t *testing.T) {
			answers := oneNode()
			c.change(answers)
			serveCluster(t, answers)
			code, out, errOut := runPlugin(t, "status")
			if code != c.code || !strings.Contains(errOut, c.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s%s", code, c.code, c.want, out, errOut)
			}
		})
	}
}

// TestComponentsInEachFormat expects the components as a table, as data and as names.
func TestComponentsInEachFormat(t *testing.T) {
	serveCluster(t, oneNode())
	for args, want := range map[string]string{
		"status": "\nCOMPONENT           READY  DESIRED  VERSION\n" +
			"mooring-agent       1      1        v0.2.0\n" +
			"mooring-controller  2      2        v0.2.0\n",
		"status -o wide": "v0.2.0   registry/controller:v0.2.0\n",
		"status -o name": "nodestate.mooring.dev/node-1\ndaemonset.apps/mooring-agent\n" +
			"deployment.apps/mooring-controller\n",
		"status -o jsonpath={.components[1]['name','ready','version','image']}": "" +
			"mooring-controller 2 v0.2.0 registry/controller:v0.2.0\n",
	} {
		if code, out, errOut := runPlugin(t, strings.Fields(args)...); code != ExitOK ||
			!strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, want %q:\n%s%s", args, code, want, out, errOut)
		}
	}
}

// TestStatusWaitsForComponents becomes ready with the second read.
func TestStatusWaitsForComponents(t *testing.T) {
	answers := oneNode()
	reads := 0
	answers[deploymentsPath] = func() any {
		reads++
		return deploymentList(deployment("mooring-controller", int32(reads)))
	}
	serveCluster(t, answers)
	code, out, errOut := runPlugin(t, "status", "--wait")
	if want := "waiting: Deployment mooring-controller: 1 of 2 replicas are ready\n"; code !=
		ExitOK || errOut != want {
		t.Errorf("exit code %d, want %q:\n%s%s", code, want, out, errOut)
	}
}

// TestStatusHasTheNotesOfNodes reads a state that no agent writes, and one with more launchers than
// it lists. A node without an answer has its reason below the table, and no note.
func TestStatusHasTheNotesOfNodes(t *testing.T) {
	bad, full := stateOf("bad", 0, false), stateOf("full", 0, false)
	bad.Status.Launchers = []v1alpha1.LauncherReport{{VMs: []v1alpha1.VMReport{
		{PID: 1, StartTime: -1}}}}
	full.Status.OmittedLaunchers = 3
	startFleet(t, []v1alpha1.NodeState{bad, full, stateOf("silent", time.Hour, false)}, nil)
	_, out, _ := runPlugin(t, "status", "-o", "json")
	var s statusJSON
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Notes) != 2 || s.Notes[0] != "node full has 3 more launchers than its state lists" ||
		!strings.Contains(s.Notes[1], "unreadable state of node bad") {
		t.Errorf("notes %q", s.Notes)
	}
	_, out, errOut := runPlugin(t, "status")
	if !strings.Contains(errOut, "unreadable state of node bad") ||
		!strings.Contains(out, "\nsilent: the agent wrote its last state 60m ago\n") ||
		strings.Contains(errOut, "no answer") {
		t.Errorf("%s%s", out, errOut)
	}
}
