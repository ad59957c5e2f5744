package agent

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/internal/buildinfo"
	"github.com/mooring-vm/mooring/plugin"
)

var (
	testBuild = buildinfo.Info{Version: "v1"}
	discard   = slog.New(slog.DiscardHandler)
)

// apiServer has one pod and accepts Events.
type apiServer struct {
	*httptest.Server
	pod     corev1.Pod
	listing chan struct{} // receives one value for each request of the list
	listed  chan struct{} // closed: the server answers requests of the list
	events  chan *eventsv1.Event
}

func startAPIServer(t *testing.T, pod corev1.Pod) *apiServer {
	t.Helper()
	s := &apiServer{pod: pod, listing: make(chan struct{}, 100), listed: make(chan struct{}),
		events: make(chan *eventsv1.Event, 10)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/pods", s.pods)
	mux.HandleFunc("POST /apis/events.k8s.io/v1/namespaces/{namespace}/events",
		func(w http.ResponseWriter, r *http.Request) {
			s.events <- decodeEvent(t, w, r)
		})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *apiServer) pods(w http.ResponseWriter, r *http.Request) {
	switch query := r.URL.Query(); {
	case query.Has("sendInitialEvents"):
		http.Error(w, "this server lists", http.StatusUnprocessableEntity)
	case query.Get("watch") == "true":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case query.Get("fieldSelector") != "spec.nodeName=node-1":
		http.Error(w, "wrong selector "+query.Get("fieldSelector"), http.StatusBadRequest)
	default:
		s.listing <- struct{}{}
		<-s.listed
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(corev1.PodList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
			ListMeta: metav1.ListMeta{ResourceVersion: "1"},
			Items:    []corev1.Pod{s.pod},
		})
	}
}

func decodeEvent(t *testing.T, w http.ResponseWriter, r *http.Request) *eventsv1.Event {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		t.Error(err)
	}
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(body)
	event, _ := object.(*eventsv1.Event)
	return event
}

// kubeconfig writes a file for the server.
func (s *apiServer) kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: s.URL}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
		CurrentContext: "c",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAgentWithKubernetes(t *testing.T) {
	api := startAPIServer(t, corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "uid-vm-1", Namespace: "named", Name: "vm-1"},
		Spec:       corev1.PodSpec{ServiceAccountName: "trusted"},
	})
	config := testConfig(t)
	config.Kubeconfig, config.NodeName = api.kubeconfig(t), "node-1"
	config.PodsTimeout = time.Millisecond
	runtime := startRuntime(t, config.NRISocket)
	a := start(t, config)
	eventually(t, "readiness for all but the pods", func() bool {
		_, body := a.get(t, "/readyz")
		return strings.Contains(body,
			"[+]nri ok\n[-]pods failed: the pods of this node are not listed yet")
	})
	close(api.listed)
	a.waitReady(t)
	runtime.BlockPluginSync().Unblock()

	required := map[string]string{"requires-lock.memlock.mooring.dev": "true"}
	known := testPod("named", "vm-1", required)
	if _, err := create(runtime, known, testContainer(known)); err != nil {
		t.Errorf("a launcher with the service account that the rule names: %v", err)
	}
	unknown := testPod("named", "vm-2", required)
	if _, err := create(runtime, unknown, testContainer(unknown)); err == nil {
		t.Error("a launcher with an unknown service account was created")
	}
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	event := receive(t, api.events, "the Event")
	if event == nil || event.Regarding.Name != "vm-2" || event.Reason != "MemlockRefused" {
		t.Errorf("Event %+v, want MemlockRefused for vm-2", event)
	}
}

// A restarted agent must know the pods before the runtime lists the launchers.
func TestAgentWaitsForThePodsBeforeItConnects(t *testing.T) {
	api := startAPIServer(t,
		corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid-vm-1", Namespace: "named",
			Name: "vm-1"}})
	config := testConfig(t)
	config.Kubeconfig, config.NodeName, config.PodsTimeout = api.kubeconfig(t), "node-1", deadline
	startRuntime(t, config.NRISocket)
	a := start(t, config)
	receive(t, api.listing, "the request for the pods")
	if status, _ := a.connection.Status(); status.Phase != plugin.Disconnected {
		t.Errorf("phase = %s before the pods are listed, want %s", status.Phase,
			plugin.Disconnected)
	}
	close(api.listed)
	a.waitReady(t)
	if strings.Contains(a.log.String(), "continuing without the list of pods") {
		t.Error("the agent did not wait")
	}
}

func TestWarnAboutAccounts(t *testing.T) {
	p, err := policy.Parse([]byte(testPolicy))
	if err != nil {
		t.Fatal(err)
	}
	var log syncBuffer
	warnAboutAccounts(p, slog.New(slog.NewTextHandler(&log, nil)))
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "rule=named") {
		t.Errorf("logged %q, want one warning about the rule", got)
	}
}
