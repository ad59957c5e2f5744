package cli

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
)

// ours stands for the name of the request in the status of a test.
const ours = "ours"

// vmServer serves one VirtualMachine. Each read returns the next status; the last one stays.
type vmServer struct {
	mu          sync.Mutex
	statuses    []api.ResizeStatus
	annotations map[string]string // after the patch
	override    map[string]string // annotations by another client
	requests    []string
}

func (s *vmServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
	vm := kubevirtv1.VirtualMachine{}
	vm.Name = "db"
	if r.Method == http.MethodPatch {
		_ = json.Unmarshal(body, &vm)
		s.annotations = maps.Clone(vm.Annotations)
	}
	vm.Annotations = map[string]string{}
	maps.Copy(vm.Annotations, s.annotations)
	maps.Copy(vm.Annotations, s.override)
	if len(s.statuses) > 0 {
		status := s.statuses[0]
		if status.Request == ours {
			status.Request = s.annotations["request.resize.mooring.dev"]
		}
		text, _ := json.Marshal(status)
		vm.Annotations[api.ResizeStatusKey] = string(text)
		if len(s.statuses) > 1 && r.Method == http.MethodGet {
			s.statuses = s.statuses[1:]
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(vm)
}

// start returns the kubeconfig of the server.
func (s *vmServer) start(t *testing.T) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "config")
	config := "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: " +
		"{cluster: a, user: a, namespace: vms}}], users: [{name: a, user: {}}], " +
		"clusters: [{name: a, cluster: {server: '" + server.URL + "'}}]}"
	if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func resizeVM(t *testing.T, kubeconfig string, args ...string) result {
	t.Helper()
	return run(t.Context(), t, filepath.Join(t.TempDir(), "none"),
		append([]string{"resize", "--kubeconfig", kubeconfig}, args...)...)
}

const vmPath = "/apis/kubevirt.io/v1/namespaces/vms/virtualmachines/db"

// The patch sets only annotations of the VirtualMachine.
func TestResizeVMPatch(t *testing.T) {
	server := &vmServer{}
	kubeconfig := server.start(t)
	got := resizeVM(t, kubeconfig, "vm/db", "--vcpus", "4", "--memory", "8Gi")
	if got.code != ExitOK || got.out != "vm/db: annotated with 4 vCPUs, 8Gi of memory\n" {
		t.Errorf("%+v", got)
	}
	want := []string{"PATCH " + vmPath + ` {"metadata":{"annotations":` +
		`{"memory.resize.mooring.dev":"8Gi","vcpus.resize.mooring.dev":"4"}}}`}
	if diff := cmp.Diff(want, server.requests); diff != "" {
		t.Errorf("requests (-want +got)\n%s", diff)
	}
}

func TestResizeVMWaits(t *testing.T) {
	grown := api.ResizeAmounts{VCPUs: 4}
	status := func(reason api.ResizeReason, message string) api.ResizeStatus {
		return api.ResizeStatus{Desired: grown, Reason: reason, Message: message, Request: ours}
	}
	old := func(reason api.ResizeReason, message string) api.ResizeStatus {
		return api.ResizeStatus{Desired: grown, Reason: reason, Message: message, Request: "old"}
	}
	resizing, resized := status(api.ResizeUnderWay, "works"), status(api.ResizeDone, "has it")
	for name, tt := range map[string]struct {
		statuses []api.ResizeStatus
		code     int
		out      []string // parts, in this order
		err      string
	}{
		"until the end": {[]api.ResizeStatus{resizing, resized}, ExitOK,
			[]string{"Resizing: works", "Resized: has it"}, ""},
		"until a failure": {[]api.ResizeStatus{resizing, status(api.ResizeFailed, "no slot")},
			ExitFailure, []string{"Resizing: works"}, "could not be resized: Failed: no slot"},
		"until a refusal": {[]api.ResizeStatus{status(api.ResizeRefused, "at most 3")}, ExitFailure,
			nil, "could not be resized: Refused: at most 3"},
		"beyond an older failure": {[]api.ResizeStatus{old(api.ResizeFailed, "no slot"), resized},
			ExitOK, []string{"Resized: has it"}, ""},
		"beyond an older success": {[]api.ResizeStatus{old(api.ResizeDone, "had it"),
			status(api.ResizeFailed, "no slot")}, ExitFailure, nil, "no slot"},
		"until an invalid annotation, as before": {[]api.ResizeStatus{
			{Reason: api.ResizeInvalid, Message: "bad", Request: ours}}, ExitFailure, nil,
			"could not be resized: Invalid: bad"},
		"with the actual size": {[]api.ResizeStatus{{Desired: grown, Reason: api.ResizeUnderWay,
			Message: "works", Actual: &api.ResizeAmounts{VCPUs: 3, Memory: "2Gi"}, Request: ours},
			resized}, ExitOK, []string{"works (now 3 vCPUs, 2Gi of memory)", "has it"}, ""},
		"until the time-out": {[]api.ResizeStatus{status(api.ResizeNoNode, "no memory")},
			ExitFailure, []string{"NodeFull: no memory"}, "waited for 1.5s: NodeFull: no memory"},
		"without an answer": {[]api.ResizeStatus{old(api.ResizeDone, "had it")}, ExitFailure, nil,
			"waited for 1.5s without an answer of mooring-controller"},
	} {
		t.Run(name, func(t *testing.T) {
			kubeconfig := (&vmServer{statuses: tt.statuses}).start(t)
			timeout := "5s"
			if strings.Contains(tt.err, "1.5s") {
				timeout = "1.5s"
			}
			got := resizeVM(t, kubeconfig, "vm/db", "--vcpus", "4", "--wait", "--timeout", timeout)
			if got.code != tt.code || !strings.Contains(got.errOut, tt.err) {
				t.Errorf("%+v", got)
			}
			rest := got.out
			for _, part := range tt.out {
				_, after, ok := strings.Cut(rest, part)
				if !ok {
					t.Errorf("%q is not in %q", part, rest)
				}
				rest = after
			}
			if strings.Contains(got.out, "had it") {
				t.Errorf("reports an older status: %q", got.out)
			}
		})
	}
}

// Another client changes the size while the command waits.
func TestResizeVMSuperseded(t *testing.T) {
	for key, value := range map[string]string{api.VCPUsKey: "8", api.ResizeRequestKey: "other"} {
		server := &vmServer{override: map[string]string{key: value}}
		got := resizeVM(t, server.start(t), "vm/db", "--vcpus", "4", "--wait",
			"--timeout", "5s")
		if got.code != ExitFailure || !strings.Contains(got.errOut, "another request replaced") ||
			!strings.Contains(got.errOut, key) {
			t.Errorf("%+v", got)
		}
	}
}

func TestResizeVMErrors(t *testing.T) {
	server := &vmServer{}
	kubeconfig := server.start(t)
	for want, args := range map[string][]string{
		"want vm/NAME":                        {"vm/a/b", "--vcpus", "4"},
		"want --vcpus and --memory":           {"vm/db", "--cpu-shares", "200"},
		"want a number of virtual CPUs":       {"vm/db", "--vcpus", "9000"},
		"a VirtualMachine is an object of a ": {"vm/db", "--vcpus", "4", "--kubeconfig="},
	} {
		got := resizeVM(t, kubeconfig, args...)
		if got.code != ExitUsage || !strings.Contains(got.errOut, want) {
			t.Errorf("%v: %+v, want %s", args, got, want)
		}
	}
	if len(server.requests) > 0 {
		t.Errorf("requests %q", server.requests)
	}
}
