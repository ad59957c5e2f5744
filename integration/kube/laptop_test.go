package kubetest

import (
	"bytes"
	"context"
	"flag"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/cli"
	"github.com/mooring-vm/mooring/hack/kube"
)

var update = flag.Bool("update", false, "write the output into the page")

// laptop runs `kubectl mooring` at a fixed time with the rights of a reader.
type laptop struct {
	kubeconfig string
	now        time.Time
}

// newLaptop returns a laptop for a new account with these cluster roles.
func newLaptop(t *testing.T, plane *kube.ControlPlane, now time.Time, roles ...string) *laptop {
	t.Helper()
	admin := clientFor(t, plane.Config())
	namespace := Namespace(t, admin, "reader")
	for _, role := range roles {
		_, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(),
			&rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "reader-"},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
					Name: role},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "reader",
					Namespace: namespace}},
			}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	path, err := plane.Kubeconfig(t.Context(), namespace, "reader")
	if err != nil {
		t.Fatal(err)
	}
	return &laptop{serverClock(t, path, now), now}
}

// serverClock returns a kubeconfig for an API server with this time in its responses.
func serverClock(t *testing.T, kubeconfig string, now time.Time) string {
	t.Helper()
	config := loadConfig(t, kubeconfig)
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Transport: transport,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // of interrupted commands
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(server) },
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set("Date", now.UTC().Format(http.TimeFormat))
			return nil
		}})
	t.Cleanup(proxy.Close)
	file, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range file.Clusters {
		c.Server, c.CertificateAuthorityData = proxy.URL, nil
	}
	path := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// run returns the exit code and the output.
func (l *laptop) run(t *testing.T, args ...string) (int, string) {
	t.Helper()
	t.Setenv("KUBECONFIG", l.kubeconfig)
	var out, errOut bytes.Buffer
	program := cli.Program{Name: "kubectl-mooring", Out: &out, ErrOut: &errOut,
		Now: func() time.Time { return l.now }}
	code := program.Run(t.Context(), args)
	return code, out.String() + errOut.String()
}

// awaitRights returns once the authorizer knows the roles.
func (l *laptop) awaitRights(t *testing.T) {
	t.Helper()
	eventually(t, "the reader's roles", func() bool {
		code, _ := l.run(t, "ps", "-A")
		return code == cli.ExitOK
	})
}

// documentedNow is the time of the commands in docs/how-to/laptop.md.
var documentedNow = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// documentedFleet makes the cluster of docs/how-to/laptop.md: a node with a VM, a node with a
// refused launcher, and a node without an answer.
func documentedFleet(t *testing.T, plane *kube.ControlPlane) {
	t.Helper()
	install(t, plane)
	cpu := int64(1250)
	vm := runningLauncher("vms", "virt-launcher-db-x7k2p")
	vm.Since, vm.PhaseSince = documentedNow.Add(-time.Hour), documentedNow.Add(-time.Hour)
	vm.VMs[0].Since = documentedNow.Add(-time.Hour)
	vm.VMs[0].Usage = &agentapi.Usage{Memory: 4400 << 20, Locked: 4100 << 20, CPU: &cpu}
	vm.Limits = podapi.Limits{Memory: 5 << 30, CPU: 2000}
	putState(t, plane, "worker-1", vm)
	putState(t, plane, "worker-2", agentapi.Launcher{
		Pod: agentapi.PodRef{Namespace: "vms", Name: "virt-launcher-gpu-9d4rt",
			UID: "uid-gpu"}, Container: agentapi.ContainerRef{Name: "compute"},
		State: agentapi.StateRefused, Mode: "enforce", Rule: "vms",
		Since:   documentedNow.Add(-5 * time.Minute),
		Refusal: "value.memlock.mooring.dev: 20Gi is above the maximum of rule \"vms\", 16Gi",
		Settings: []agentapi.Setting{{Name: agentapi.MemlockSetting, Requested: "20Gi",
			Allowed: "16Gi", Status: agentapi.StatusRefused}},
	})
	silentNode(t, plane, "worker-3")
	componentsReady(t, plane, 2, 3)
}

// componentsReady gives the DaemonSets and the controller their status: without controllers for
// them, the control plane writes none.
func componentsReady(t *testing.T, plane *kube.ControlPlane, agents, nodes int32) {
	t.Helper()
	install(t, plane)
	admin := clientFor(t, plane.Config()).AppsV1()
	sets, deployments := admin.DaemonSets("mooring-system"), admin.Deployments("mooring-system")
	version := map[string]string{"app.kubernetes.io/version": "v0.2.0"}
	for name, ready := range map[string]int32{"mooring-agent": agents, "mooring-fence": nodes} {
		set, err := sets.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(set.Labels, version)
		if set, err = sets.Update(t.Context(), set, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		set.Status = appsv1.DaemonSetStatus{ObservedGeneration: set.Generation,
			DesiredNumberScheduled: nodes, CurrentNumberScheduled: nodes,
			UpdatedNumberScheduled: nodes, NumberReady: ready}
		if _, err := sets.UpdateStatus(t.Context(), set, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	d, err := deployments.Get(t.Context(), "mooring-controller", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(d.Labels, version)
	if d, err = deployments.Update(t.Context(), d, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 2,
		UpdatedReplicas: 2, ReadyReplicas: 2}
	if _, err := deployments.UpdateStatus(t.Context(), d, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// putState writes the state of a ready node.
func putState(t *testing.T, plane *kube.ControlPlane, name string,
	launchers ...agentapi.Launcher) {
	t.Helper()
	states := statesClient(t, plane.Config())
	report, err := v1alpha1.NodeReportOf(runningNode())
	if err != nil {
		t.Fatal(err)
	}
	state := &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: name}}
	eventually(t, "the CRD to be served", func() bool {
		return states.Post().Resource("nodestates").Body(state).Do(t.Context()).Into(state) == nil
	})
	t.Cleanup(func() { deleteState(t, plane, name) })
	state.Status = v1alpha1.NodeStateStatus{Node: report,
		HeartbeatTime: metav1.NewTime(documentedNow.Add(-20 * time.Second)),
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Reason: "Ready",
			Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(documentedNow)}},
	}
	for _, l := range launchers {
		report, err := v1alpha1.LauncherReportOf(l)
		if err != nil {
			t.Fatal(err)
		}
		state.Status.Launchers = append(state.Status.Launchers, report)
		if l.State == agentapi.StateRefused {
			state.Status.Totals.Refused++
			continue
		}
		state.Status.Totals.Launchers++
		state.Status.Totals.VMs += len(l.VMs)
	}
	if err := states.Put().Resource("nodestates").Name(name).SubResource("status").Body(state).
		Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
}

// silentNode makes a pod of the agent on a node, which writes no state.
func silentNode(t *testing.T, plane *kube.ControlPlane, name string) {
	t.Helper()
	admin := clientFor(t, plane.Config())
	set := install(t, plane)
	p := &corev1.Pod{ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec}
	p.Name, p.Spec.NodeName = "mooring-agent-"+name, name
	if _, err := admin.CoreV1().Pods(set.Namespace).Create(t.Context(), p,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.CoreV1().Pods(set.Namespace).Delete(context.WithoutCancel(t.Context()),
			p.Name, *metav1.NewDeleteOptions(0)); err != nil {
			t.Error(err)
		}
	})
}

// documentedEvent writes the Event of the refusal, as worker-2's agent does, into a namespace.
func documentedEvent(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	namespaces := admin.CoreV1().Namespaces()
	_, err := namespaces.Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vms"}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.EventsV1().Events("vms").DeleteCollection(
			context.WithoutCancel(t.Context()), metav1.DeleteOptions{}, metav1.ListOptions{}); err !=
			nil {
			t.Error(err)
		}
	})
	for controller, note := range map[string]string{
		"mooring.dev/agent":     "20Gi is above the maximum of rule \"vms\", 16Gi",
		"example.org/scheduler": "another program's",
	} {
		_, err = admin.EventsV1().Events("vms").Create(t.Context(), &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "refused-", Namespace: "vms"},
			EventTime:  metav1.NewMicroTime(documentedNow.Add(-5 * time.Minute)),
			Regarding: corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: "vms",
				Name: "virt-launcher-gpu-9d4rt", FieldPath: "spec.containers{compute}"},
			ReportingController: controller, ReportingInstance: "mooring-agent-worker-2",
			Action: "EnforceLauncherLimits", Reason: "MemlockRefused", Note: note, Type: "Warning",
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
}

var laptopBlock = regexp.MustCompile("(?ms)^```console\n\\$ kubectl mooring ([^\n]*)\n(.*?)^```$")

// TestCommandsOfTheLaptopPage runs the commands of docs/how-to/laptop.md with the rights that the
// page names, and compares their output. -update writes the output into the page.
func TestCommandsOfTheLaptopPage(t *testing.T) {
	plane := Start(t)
	documentedFleet(t, plane)
	documentedEvent(t, clientFor(t, plane.Config()))
	// no controller aggregates the role "view" here
	l := newLaptop(t, plane, documentedNow, "system:aggregate-to-view", "mooring-view")
	l.awaitRights(t)
	page := filepath.Join("..", "..", "docs", "how-to", "laptop.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
	doc := string(text)
	blocks := laptopBlock.FindAllStringSubmatch(doc, -1)
	if len(blocks) < 6 {
		t.Fatalf("found %d commands", len(blocks))
	}
	for _, block := range blocks {
		_, got := l.run(t, strings.Fields(strings.ReplaceAll(block[1], "'", ""))...)
		if *update {
			doc = strings.Replace(doc, block[0],
				"```console\n$ kubectl mooring "+block[1]+"\n"+got+"```", 1)
			continue
		}
		if diff := cmp.Diff(block[2], got); diff != "" {
			t.Errorf("$ kubectl mooring %s (-documented +printed)\n%s", block[1], diff)
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLaptop checks exit codes and formats for programs.
func TestLaptop(t *testing.T) {
	plane := Start(t)
	documentedFleet(t, plane)
	l := newLaptop(t, plane, documentedNow, "system:aggregate-to-view", "mooring-view")
	l.awaitRights(t)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"ps -A --no-headers -o name", cli.ExitOK,
			"pod/virt-launcher-db-x7k2p\npod/virt-launcher-gpu-9d4rt\n"},
		{"ps -A -o jsonpath={[*].node}", cli.ExitOK, "worker-1 worker-2\n"},
		{"ps -A -o yaml", cli.ExitOK, "  node: worker-2\n"},
		{"ps -A --node worker-2 -o name", cli.ExitOK, "pod/virt-launcher-gpu-9d4rt\n"},
		{"ps -A --node worker-4", cli.ExitNotFound, `no node "worker-4" with an agent`},
		{"__complete inspect -n vms virt", cli.ExitOK, "virt-launcher-db-x7k2p\n"},
		{"__complete inspect vms/virt-launcher-g", cli.ExitOK, "vms/virt-launcher-gpu-9d4rt\n"},
		{"__complete ps --node worker", cli.ExitOK, "worker-1\nworker-2\nworker-3\n"},
		{"__complete top -n kube-n", cli.ExitOK, "kube-node-lease\n"},
		{"__complete quota status kube-p", cli.ExitOK, "kube-public\n"},
		{"__complete ps --context te", cli.ExitOK, "test\n"},
		{"__complete ps -o ya", cli.ExitOK, "yaml\n"},
		{"ps -n other", cli.ExitOK, "no launchers in the cluster or the namespace\n"},
		{"ps", cli.ExitOK, "no launchers in the cluster or the namespace\n"},
		{"ps -A", cli.ExitOK, "no answer from node worker-3: the agent has written no state; " +
			"its pod mooring-system/mooring-agent-worker-3 is Pending\n"},
		{"top -A -o json", cli.ExitOK, `"cpu": 1250`},
		{"inspect vms/virt-launcher-db-x7k2p -o json", cli.ExitOK, `"rule": "vms"`},
		{"inspect uid-gpu", cli.ExitOK, "Node:       worker-2\n"},
		{"inspect none", cli.ExitNotFound, `no pod "none" with a launcher in this cluster`},
		{"inspect vms/a/b", cli.ExitUsage, "want NAMESPACE/NAME, NAME or UID"},
		{"status", cli.ExitFailure, "2 of 3 nodes are ready; DaemonSet mooring-agent: 2 of 3 " +
			"nodes have a ready pod\n"},
		{"status -o jsonpath={.components[1].name}", cli.ExitFailure, "mooring-controller\n"},
		{"status -o json", cli.ExitFailure, `"healthy": false`},
		{"status --wait --timeout 1ms", cli.ExitFailure, "waited for 1ms"},
		{"ps -A --context none", cli.ExitFailure, `context "none" does not exist`},
		{"ps -A -o jsonpath={", cli.ExitUsage, "unclosed action"},
	} {
		if code, got := l.run(t, strings.Fields(c.args)...); code != c.code ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s: exit code %d, want %d with %q:\n%s", c.args, code, c.code, c.want, got)
		}
	}
	late := newLaptop(t, plane, documentedNow.Add(time.Hour), "system:aggregate-to-view",
		"mooring-view")
	late.awaitRights(t)
	if _, got := late.run(t, "status"); strings.Count(got, "NoAnswer") != 3 ||
		!strings.Contains(got, "worker-1: the agent wrote its last state 60m ago\n") {
		t.Errorf("an hour later:\n%s", got)
	}
}

// TestLaptopWaitsForANode expects --wait to end once the last node has answered.
func TestLaptopWaitsForANode(t *testing.T) {
	plane := Start(t)
	l := newLaptop(t, plane, time.Now(), "system:aggregate-to-view", "mooring-view")
	install(t, plane)
	silentNode(t, plane, "late-1")
	componentsReady(t, plane, 1, 1)
	l.awaitRights(t)
	t.Setenv("KUBECONFIG", l.kubeconfig)
	var out, errOut output
	code := make(chan int, 1)
	go func() {
		program := cli.Program{Name: "kubectl-mooring", Out: &out, ErrOut: &errOut, Now: time.Now}
		code <- program.Run(t.Context(), []string{"status", "--wait"})
	}()
	eventually(t, "progress", func() bool {
		return strings.Contains(errOut.String(), "waiting: 0 of 1 nodes are ready\n")
	})
	startNodeAgentOn(t, plane, "late-1")
	if got := <-code; got != cli.ExitOK || !strings.Contains(out.String(), "late-1  Ready") {
		t.Errorf("exit code %d:\n%s%s", got, out.String(), errOut.String())
	}
}

// TestLaptopWatches expects -w to print a launcher again after its change.
func TestLaptopWatches(t *testing.T) {
	plane := Start(t)
	l := newLaptop(t, plane, time.Now(), "system:aggregate-to-view", "mooring-view")
	a := startNodeAgentOn(t, plane, "watched-1", runningLauncher("vms", "vm-1"))
	l.awaitRights(t)
	t.Setenv("KUBECONFIG", l.kubeconfig)
	ctx, cancel := context.WithCancel(t.Context())
	var out, errOut output
	code := make(chan int, 1)
	go func() {
		program := cli.Program{Name: "kubectl-mooring", Out: &out, ErrOut: &errOut, Now: time.Now}
		code <- program.Run(ctx, []string{"ps", "-A", "-w"})
	}()
	eventually(t, "the list", func() bool { return strings.Contains(out.String(), "vm-1") })
	changed := a.current()
	changed.Launchers = []agentapi.Launcher{runningLauncher("vms", "vm-1")}
	changed.Launchers[0].VMs[0].State = agentapi.VMStopping
	a.set(changed)
	eventually(t, "the change",
		func() bool { return strings.Contains(out.String(), "101 Stopping") })
	cancel()
	if got := <-code; got != cli.ExitOK || strings.Count(out.String(), "NAMESPACE") != 1 {
		t.Errorf("exit code %d:\n%s%s", got, out.String(), errOut.String())
	}
}

// TestLaptopNamesTheMissingRight expects the missing role in the error.
func TestLaptopNamesTheMissingRight(t *testing.T) {
	plane := Start(t)
	install(t, plane)
	l := newLaptop(t, plane, time.Now())
	for _, command := range []string{"ps", "status", "top", "inspect vm"} {
		eventually(t, command, func() bool {
			code, got := l.run(t, strings.Fields(command)...)
			return code == cli.ExitPermission &&
				strings.Contains(got, `requires a role with the verb "list" for nodestates`)
		})
	}
}
