package admin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// fakeSizes records the requested sizes, and answers with pods and err.
type fakeSizes struct {
	pods     []agentapi.ResizedPod
	err      error
	requests []api.Size
}

func (s *fakeSizes) RequestSize(_, _ string, size api.Size, _ bool) ([]agentapi.ResizedPod, error) {
	s.requests = append(s.requests, size)
	return s.pods, s.err
}

func TestResize(t *testing.T) {
	server := testServer()
	sizes := &fakeSizes{pods: []agentapi.ResizedPod{{UID: "1", Generation: 7}}}
	server.Sizes = sizes
	client, _ := startServer(t, server)
	size := api.Size{VCPUs: 4, Memory: 4 << 30, CPUQuota: api.CPUQuota{Percent: 150},
		CPUShares: 200}
	answer, err := client.Resize(t.Context(), "ns", "vm",
		agentapi.ResizeRequest{Size: size, DryRun: true})
	want := agentapi.ResizeAnswer{Pods: sizes.pods, Size: size, DryRun: true}
	if diff := cmp.Diff(want, answer); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	if diff := cmp.Diff([]api.Size{size}, sizes.requests); diff != "" {
		t.Errorf("requests (-want +got)\n%s", diff)
	}
	sizes.pods = nil
	_, err = client.Resize(t.Context(), "ns", "vm", agentapi.ResizeRequest{Size: size})
	if _, ok := errors.AsType[*NotFoundError](err); !ok {
		t.Errorf("error %v, want a NotFoundError", err)
	}
	sizes.err = errors.New("this node has Kubernetes")
	_, err = client.Resize(t.Context(), "ns", "vm", agentapi.ResizeRequest{Size: size})
	if err == nil || !strings.Contains(err.Error(), "resize of pod ns/vm: this node has "+
		"Kubernetes") {
		t.Errorf("error %v, want the reason", err)
	}
}

// The server refuses invalid requests and does not pass them on.
func TestInvalidResizeRequests(t *testing.T) {
	server := testServer()
	sizes := &fakeSizes{}
	server.Sizes = sizes
	for body, want := range map[string]string{
		`{}`:                    "want one of vcpus, memory, cpuQuota and cpuShares",
		`{"vcpus":-1}`:          "vcpus: -1: want 1 to 8192",
		`{"vcpus":8193}`:        "vcpus: 8193: want 1 to 8192",
		`{"memory":-1}`:         "memory: -1: want more than 0 bytes",
		`{"cpuQuota":"lots"}`:   `cpuQuota: "lots": `,
		`{"cpuShares":1}`:       "cpuShares: 1: want 2 to 10000",
		`{"cpuShares":-2}`:      "cpuShares: -2: want 2 to 10000",
		`{"cpuShares":10001}`:   "cpuShares: 10001: want 2 to 10000",
		`{"vcpus":1,"uid":"1"}`: `unknown field "uid"`,
		`{"vcpus":1}{}`:         "want one JSON object",
		`{"cpuQuota":"` + strings.Repeat("x", 5000) + `"}`: "too large",
	} {
		answer := httptest.NewRecorder()
		path := agentapi.PathLaunchers + "/ns/vm" + agentapi.SuffixResize
		server.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(),
			http.MethodPut,
			path, strings.NewReader(body)))
		text := strings.ReplaceAll(answer.Body.String(), `\"`, `"`)
		if answer.Code != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%.40s: %d %s, want 400 with %q", body, answer.Code, text, want)
		}
	}
	if len(sizes.requests) > 0 {
		t.Errorf("requests passed on: %v", sizes.requests)
	}
}
