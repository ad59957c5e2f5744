package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

// apiServer is a fake API server with the fake agent's pod.
type apiServer struct {
	kubeconfig string

	mu       sync.Mutex
	pod      corev1.Pod
	requests []string // requests
	answer   *metav1.Status
	onPatch  func()         // called for each patch
	listed   []corev1.Event // before the patch
	watched  []corev1.Event // sent to a watch
}

func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	l := vfio("vms")
	s := &apiServer{kubeconfig: filepath.Join(t.TempDir(), "config"), pod: corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "vfio", UID: types.UID(l.Pod.UID),
			Annotations: map[string]string{"vcpus.resize.mooring.dev": "3"}},
		Spec: corev1.PodSpec{NodeName: "node-2"},
	}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	config := "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: " +
		"{cluster: a, user: a, namespace: vms}}], " +
		"users: [{name: a, user: {}}], clusters: [{name: a, cluster: {server: '" +
		server.URL + "'}}]}"
	if err := os.WriteFile(s.kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	text := r.Method + " " + r.URL.Path
	if r.Method == http.MethodPatch {
		text += " " + r.URL.Query().Encode() + " " + r.Header.Get("Content-Type") + " " +
			string(body)
	}
	s.requests = append(s.requests, text)
	var answer any = s.pod
	switch {
	case s.answer != nil:
		answer = s.answer
	case strings.HasSuffix(r.URL.Path, "/events") && r.URL.Query().Get("watch") != "":
		s.watch(w, r)
		return
	case strings.HasSuffix(r.URL.Path, "/events"):
		answer = corev1.EventList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"},
			ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: s.listed,
		}
	case r.Method == http.MethodPatch && s.onPatch != nil:
		s.onPatch()
		answer = s.pod
	}
	w.Header().Set("Content-Type", "application/json")
	if s.answer != nil {
		w.WriteHeader(int(s.answer.Code))
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// watch sends the watched Events and then blocks until the client disconnects.
func (s *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	for _, e := range s.watched {
		kind := "ADDED"
		if e.Series != nil {
			kind = "MODIFIED"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": e})
	}
	_ = http.NewResponseController(w).Flush()
	s.mu.Unlock()
	<-r.Context().Done()
	s.mu.Lock()
}

const patched = "PATCH /api/v1/namespaces/vms/pods/vfio fieldManager=mooring " +
	"application/merge-patch+json "

// The patch sets only the requested annotations.
func TestResizePatch(t *testing.T) {
	for args, want := range map[string]struct{ request, out string }{
		"--vcpus 4": {patched + `{"metadata":{"annotations":{"vcpus.resize.mooring.dev":"4"}}}`,
			"vms/vfio: annotated with 4 vCPUs\n"},
		"--memory 4096Mi --cpu-quota 150": {
			patched +
				`{"metadata":{"annotations":{"cpu-quota.resize.mooring.dev":"150%","memory.resize.mooring.dev":"4Gi"}}}`,
			"vms/vfio: annotated with 4Gi of memory, CPU quota 150%\n",
		},
		"--cpu-shares 200": {
			patched + `{"metadata":{"annotations":{"cpu-shares.resize.mooring.dev":"200"}}}`,
			"vms/vfio: annotated with 200 CPU shares\n"},
		"--vcpus 4 --cpu-shares 200 --dry-run": {
			strings.Replace(patched, "fieldManager", "dryRun=All&fieldManager", 1) +
				`{"metadata":{"annotations":{"cpu-shares.resize.mooring.dev":"200","vcpus.resize.mooring.dev":"4"}}}`,
			"vms/vfio: could be annotated with 4 vCPUs, 200 CPU shares\n",
		},
	} {
		s := startAPIServer(t)
		got := run(t.Context(), t, filepath.Join(t.TempDir(), "none"),
			append([]string{"resize", "--kubeconfig", s.kubeconfig, "vfio"},
				strings.Fields(args)...)...)
		if got.code != ExitOK || got.out != want.out {
			t.Errorf("%s: %+v, want %q", args, got, want.out)
		}
		if diff := cmp.Diff([]string{want.request}, s.requests); diff != "" {
			t.Errorf("%s (-want +got)\n%s", args, diff)
		}
		if strings.Contains(args, "dry-run") && got.errOut != "for a plan, run on node node-2: "+
			"`mooring resize vms/vfio --cpu-shares 200 --vcpus 4 --dry-run --kubeconfig=`\n" {
			t.Errorf("%s: %q", args, got.errOut)
		}
	}
}

func TestResizeSelectsClusterOrAgent(t *testing.T) {
	s, a := startAPIServer(t), startAgent(t, vfio("vms"))
	home := clientcmd.RecommendedHomeFile
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = home })
	for name, c := range map[string]struct {
		program, env, home string
		args               []string
		cluster            bool
	}{
		"no kubeconfig": {"mooring", "", "", nil, false},
		"flag": {"mooring", "", "", []string{"--kubeconfig", s.kubeconfig},
			true},
		"environment": {"mooring", s.kubeconfig, "", nil, true},
		"environment, overruled": {"mooring", s.kubeconfig, s.kubeconfig,
			[]string{"--kubeconfig="}, false},
		"kubeconfig of kubectl only": {"mooring", "", s.kubeconfig, nil, false},
		"plugin of kubectl":          {"kubectl-mooring", "", s.kubeconfig, nil, true},
		"plugin, overruled": {"kubectl-mooring", "", s.kubeconfig,
			[]string{"--kubeconfig="}, false},
		"plugin without a cluster": {"kubectl-mooring", "", filepath.Join(t.TempDir(), "none"),
			nil, false},
		"environment, socket": {"mooring", s.kubeconfig, "", []string{"--socket", a.socket},
			false},
		"plugin, socket": {"kubectl-mooring", "", s.kubeconfig, []string{"--socket", a.socket},
			false},
	} {
		t.Setenv(clientcmd.RecommendedConfigPathEnvVar, c.env)
		clientcmd.RecommendedHomeFile = c.home
		var out, errOut bytes.Buffer
		program := testProgram(&out, &errOut)
		program.Name, program.defaultSocket = c.program, a.socket
		code := program.Run(t.Context(),
			append([]string{"resize", "-n", "vms", "vfio", "--vcpus", "4"}, c.args...))
		want := "vms/vfio: requested 4 vCPUs\n"
		if c.cluster {
			want = "vms/vfio: annotated with 4 vCPUs\n"
		}
		if code != ExitOK || out.String() != want {
			t.Errorf("%s: exit code %d, %q, %q; want %q", name, code, out.String(),
				errOut.String(), want)
		}
	}
}

// TestResizeWithoutAgent uses kubectl's kubeconfig on a machine without an agent, as the commands
// that list launchers do.
func TestResizeWithoutAgent(t *testing.T) {
	s := startAPIServer(t)
	home := clientcmd.RecommendedHomeFile
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = home })
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, "")
	clientcmd.RecommendedHomeFile = s.kubeconfig
	var out, errOut bytes.Buffer
	program := testProgram(&out, &errOut)
	program.defaultSocket = filepath.Join(t.TempDir(), "none")
	code := program.Run(t.Context(), []string{"resize", "vfio", "--vcpus", "4"})
	if code != ExitOK || out.String() != "vms/vfio: annotated with 4 vCPUs\n" {
		t.Errorf("exit code %d, %q, %q", code, out.String(), errOut.String())
	}
}

// If the pod runs here, the agent of this node makes the plan, and the output has each step.
func TestResizeOfAPodOnThisNode(t *testing.T) {
	annotated := "vms/vfio: annotated with 4 vCPUs\n"
	for name, c := range map[string]struct {
		args   string
		change func(*apiServer, *agent)
		want   result
	}{
		"dry run": {"--vcpus 4 --dry-run", func(s *apiServer, a *agent) {
			s.pod.Annotations = map[string]string{"vcpus.resize.mooring.dev": "4",
				"cpu-quota.resize.mooring.dev": "150%", "cpu-shares.resize.mooring.dev": "200"}
			a.leases.report = func(size api.Size, _ bool) podapi.Report {
				return podapi.Report{Generation: 7, DryRun: true, State: podapi.StatePlanned,
					Plan: []string{sizeText(size)}}
			}
		}, result{ExitOK, "vms/vfio: could be annotated with 4 vCPUs\nplan  1  4 vCPUs, CPU " +
			"quota 150%, 200 CPU shares\n", ""}},
		"dry run of a pod with bad annotations": {"--vcpus 4 --dry-run",
			func(s *apiServer, _ *agent) {
				s.pod.Annotations = map[string]string{"vcpus.resize.mooring.dev": "4",
					"cpu-quota.resize.mooring.dev": "fast"}
			}, result{ExitFailure, "vms/vfio: could be annotated with 4 vCPUs\n",
				"error: pod vms/vfio: annotation cpu-quota.resize.mooring.dev: \"fast\": want " +
					"percent of one CPU between 1% and 819200%, such as 150%; two frequencies " +
					"such as 1200/2400MHz; or \"none\"\n"}},
		"wait": {"--vcpus 4 --wait", func(s *apiServer, a *agent) {
			a.leases.setReport(podapi.Report{Generation: 6, State: podapi.StateFailed,
				Error: "about an earlier size"})
			s.onPatch = func() { a.leases.setReport(resized()) }
		}, result{ExitOK, annotated + plan + steps + "\nnote: the balloon is empty\ndone: 4Gi of " +
			"memory, 4 vCPUs (3 in use)\n", ""}},
		"same annotations": {"--vcpus 3 --wait", func(_ *apiServer, a *agent) {
			a.leases.setReport(resized())
		},
			result{ExitOK, "vms/vfio: annotated with 3 vCPUs\n" + plan + steps +
				"\nnote: the balloon is empty\ndone: 4Gi of memory, 4 vCPUs (3 in use)\n",
				"the pod already had these annotations\n"}},
		"no new report": {"--vcpus 4 --wait --timeout 10ms",
			func(_ *apiServer, a *agent) { a.leases.setReport(resized()) },
			result{ExitFailure, annotated, "error: waited for 10ms: " + errNoReport.Error() +
				"\n"}},
		"replaced": {"--vcpus 4 --wait", func(s *apiServer, _ *agent) {
			s.onPatch = func() { s.pod.UID = "other" }
		},
			result{ExitFailure, annotated, "error: pod vms/vfio was replaced by another pod, " +
				"which got the patch\n"}},
		"scoped": {"--vcpus 4", func(s *apiServer, _ *agent) {
			s.pod.Annotations = map[string]string{"vcpus.resize.mooring.dev/pod": "2",
				"memory.resize.mooring.dev/pod": "1Gi", "vcpus.resize.mooring.dev": "4"}
		}, result{ExitOK, annotated, "the pod has vcpus.resize.mooring.dev/pod: \"2\", which " +
			"overrides the new value\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, a := startAPIServer(t), startAgent(t, vfio("vms"))
			c.change(s, a)
			got := run(t.Context(), t, a.socket,
				append([]string{"resize", "--kubeconfig", s.kubeconfig, "vfio"},
					strings.Fields(c.args)...)...)
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// setReport sets the resize report of all launchers.
func (l *testLaunchersAPI) setReport(r podapi.Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.launchers {
		l.launchers[i].Resize = &agentapi.Resize{Reported: now, Report: r}
	}
}

func TestResizeInClusterErrors(t *testing.T) {
	s := startAPIServer(t)
	for name, c := range map[string]struct {
		args   []string
		answer *metav1.Status
		code   int
		want   string
	}{
		"no file": {[]string{"vfio", "--kubeconfig", filepath.Join(t.TempDir(), "none")}, nil,
			ExitFailure, "none: no such file"},
		"no pod here": {[]string{"vfio", "--kubeconfig", "in-cluster"}, nil, ExitFailure,
			"read the pod's service account"},
		"parts": {[]string{"a/b/c"}, nil, ExitUsage,
			`pod "a/b/c": want NAMESPACE/NAME or NAME`},
		"no name": {[]string{"vms/"}, nil, ExitUsage,
			`pod "vms/": want NAMESPACE/NAME or NAME`},
		"no namespace": {[]string{"/vfio"}, nil, ExitUsage,
			`pod "/vfio": want NAMESPACE/NAME, or --namespace`},
		"webhook": {[]string{"vfio"},
			&metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden,
				Message: `admission webhook "x" denied the request`},
			ExitFailure, "resize of pod vms/vfio: admission webhook \"x\" denied the request\n"},
		"no credentials": {[]string{"vfio"}, &metav1.Status{Code: 401,
			Reason: metav1.StatusReasonUnauthorized, Message: "Unauthorized"},
			ExitPermission, "resize of pod vms/vfio: Unauthorized\n"},
		"gone": {[]string{"vfio", "--wait"}, &metav1.Status{Code: 404,
			Reason: metav1.StatusReasonNotFound, Message: `pods "vfio" not found`},
			ExitNotFound, `resize of pod vms/vfio: pods "vfio" not found`},
	} {
		s.mu.Lock()
		if s.answer = c.answer; s.answer != nil {
			s.answer.TypeMeta, s.answer.Status = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				metav1.StatusFailure
		}
		s.mu.Unlock()
		args := append([]string{"resize", "--vcpus", "1", "--kubeconfig", s.kubeconfig}, c.args...)
		got := run(t.Context(), t, filepath.Join(t.TempDir(), "none"), args...)
		if got.code != c.code || !strings.Contains(got.errOut, c.want) || got.out != "" {
			t.Errorf("%s: got %+v, want exit code %d and %q", name, got, c.code, c.want)
		}
	}
}
