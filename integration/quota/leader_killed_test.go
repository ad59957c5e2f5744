package quota

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// TestLeaderKilled kills the leader of two controllers in the middle of a raise. The other one
// raises the quota once, and restores it after the migration.
func TestLeaderKilled(t *testing.T) {
	c, standby := start(t)
	for name, answerLost := range map[string]bool{"late write": false, "lost answer": true} {
		t.Run(name, func(t *testing.T) {
			standby.stop(t)
			leader := install(t, c, "killed-controller")
			g := newGate(t, leader, answerLost)
			leader.start(t)
			standby.start(t)
			testLeaderKilled(t, c, g, leader)
			checkWrites(t, standby)
		})
	}
}

func testLeaderKilled(t *testing.T, c *kubevirttest.Cluster, g *gate, leader *program) {
	ns := c.Namespace(t, full())
	vmi := c.RunningVMI(t, ns, "vm", small())
	seen := record(t, c, ns)
	m := c.MigrateUntil(t, vmi, virtv1.MigrationPreparingTarget)
	g.awaitWrite(t)
	leader.kill(t)
	m.Await(t, virtv1.MigrationPreparingTarget)
	r := awaitPhase(t, c, ns, v1alpha1.PhaseCharged)
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(full(), r))
	g.finish(t)
	m.GoOn(t)
	m.Await(t, virtv1.MigrationSucceeded)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
	if raised := seen().check(t, []version{{0, full()}}); raised != 1 {
		t.Errorf("the quota was raised %d times, want 1", raised)
	}
}

// gate is a proxy of the API server. It stops the first write of a quota, before the API server
// gets it or before the controller gets the answer.
type gate struct {
	answerLost bool
	proxy      *httputil.ReverseProxy
	stopped    chan struct{} // closed at the first write
	release    chan struct{} // closed to let it go on
	status     chan int      // of the answer
	first      chan struct{} // holds one token for the first write
}

// newGate makes a controller use a gate.
func newGate(t *testing.T, p *program, answerLost bool) *gate {
	t.Helper()
	const flag = "--kubeconfig="
	at := slices.IndexFunc(p.args, func(arg string) bool { return strings.HasPrefix(arg, flag) })
	path := strings.TrimPrefix(p.args[at], flag)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	api, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{answerLost: answerLost, stopped: make(chan struct{}), release: make(chan struct{}),
		status: make(chan int, 1), first: make(chan struct{}, 1)}
	g.first <- struct{}{}
	g.proxy = &httputil.ReverseProxy{Transport: transport,
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(api) },
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)} // of killed clients
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	p.args[at] = flag + kubeconfigFor(t, server.URL)
	return g
}

// kubeconfigFor writes a kubeconfig without credentials.
func kubeconfigFor(t *testing.T, server string) string {
	t.Helper()
	const name = "gate"
	path := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: server}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name}},
		CurrentContext: name,
	}, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// ServeHTTP implements [http.Handler].
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/resourcequotas/") {
		select {
		case <-g.first:
			g.stop(r)
			return
		default:
		}
	}
	g.proxy.ServeHTTP(w, r)
}

// stop sends the write to the API server, even after the end of the controller.
func (g *gate) stop(r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // awaitWrite reports the missing write
	}
	r = r.WithContext(context.WithoutCancel(r.Context()))
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	if !g.answerLost {
		close(g.stopped)
		<-g.release
	}
	g.proxy.ServeHTTP(answer, r)
	g.status <- answer.Code
	if g.answerLost {
		close(g.stopped)
		<-g.release
	}
}

// awaitWrite returns when the first write has stopped.
func (g *gate) awaitWrite(t *testing.T) {
	t.Helper()
	eventually(t, "a write of the quota", func() error {
		select {
		case <-g.stopped:
			return nil
		default:
			return errors.New("none")
		}
	})
}

// finish lets the write go on and checks its answer.
func (g *gate) finish(t *testing.T) {
	t.Helper()
	close(g.release)
	want := http.StatusUnprocessableEntity // a test of the patch failed
	if g.answerLost {
		want = http.StatusOK
	}
	if status := <-g.status; status != want {
		t.Errorf("the killed controller's write: status %d, want %d", status, want)
	}
}
