package kube

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mooring-vm/mooring/internal/kubeclient"
)

// A fake client cannot check the URL and the format of the request.
func TestEventOverTheWire(t *testing.T) {
	got := make(chan *eventsv1.Event, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost ||
			r.URL.Path != "/apis/events.k8s.io/v1/namespaces/vms/events" {
			t.Errorf("unexpected request %s %s", r.Method, r.URL)
		}
		if agent := r.UserAgent(); !strings.Contains(agent, "mooring-agent") {
			t.Errorf("user agent %q, want mooring-agent in it", agent)
		}
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
		if _, err := w.Write(body); err != nil {
			t.Error(err)
		}
		got <- object.(*eventsv1.Event)
	}))
	defer server.Close()

	clients, err := NewClients(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	recorder, err := NewRecorder(RecorderConfig{Sink: NewEventSink(clients.Events), Node: testNode,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	go recorder.Run(t.Context())
	recorder.Record(refusal("too much"))
	if event := <-got; event.Note != "too much" {
		t.Errorf("note %q, want %q", event.Note, "too much")
	}
}

func TestLoadConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: "https://192.0.2.1:6443"}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
		CurrentContext: "c",
	}
	if err := clientcmd.WriteToFile(kubeconfig, path); err != nil {
		t.Fatal(err)
	}
	config, err := kubeclient.LoadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://192.0.2.1:6443" {
		t.Errorf("host %q", config.Host)
	}
}

func TestLoadConfigErrorsNameTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, path + "-missing"} {
		if _, err := kubeclient.LoadConfig(path); err == nil ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("LoadConfig(%q) = %v, want an error that names it", path, err)
		}
	}
}
