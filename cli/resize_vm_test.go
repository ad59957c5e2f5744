package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
)

// startVMServer serves one VirtualMachine. Each read returns the next status; the last one stays.
func startVMServer(
	t *testing.T, statuses ...api.ResizeStatus,
) (kubeconfig string, requests *[]string) {
	t.Helper()
	requests = &[]string{}
	serve := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*requests = append(*requests, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
		vm := kubevirtv1.VirtualMachine{}
		vm.Name, vm.Annotations = "db", map[string]string{}
		if r.Method == http.MethodGet && len(statuses) > 0 {
			text, _ := json.Marshal(statuses[0])
			vm.Annotations[api.ResizeStatusKey] = string(text)
			if len(statuses) > 1 {
				statuses = statuses[1:]
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(vm)
	}
	server := httptest.NewServer(http.HandlerFunc(serve))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "config")
	config := "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: " +
		"{cluster: a, user: a, namespace: vms}}], users: [{name: a, user: {}}], " +
		"clusters: [{name: a, cluster: {server: '" + server.URL + "'}}]}"
	if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig, requests
}

func resizeVM(t *testing.T, kubeconfig string, args ...string) result {
	t.Helper()
	return run(t.Context(), t, filepath.Join(t.TempDir(), "none"),
		append([]string{"resize", "--kubeconfig", kubeconfig}, args...)...)
}

const vmPath = "/apis/kubevirt.io/v1/namespaces/vms/virtualmachines/db"

// The patch sets only annotations of the VirtualMachine.
func TestResizeVMPatch(t *testing.T) {
	kubeconfig, requests := startVMServer(t)
	got := resizeVM(t, kubeconfig, "vm/db", "--vcpus", "4", "--memory", "8Gi")
	if got.code != ExitOK || got.out != "vm/db: annotated with 4 vCPUs, 8Gi of memory\n" {
		t.Errorf("%+v", got)
	}
	want := []string{"PATCH " + vmPath + ` {"metadata":{"annotations":` +
		`{"memory.resize.mooring.dev":"8Gi","vcpus.resize.mooring.dev":"4"}}}`}
	if diff := cmp.Diff(want, *requests); diff != "" {
		t.Errorf("requests (-want +got)\n%s", diff)
	}
}

func TestResizeVMWaits(t *testing.T) {
	grown := api.ResizeAmounts{VCPUs: 4}
	older := api.ResizeStatus{Desired: api.ResizeAmounts{VCPUs: 3}, Reason: api.ResizeFailed}
	resizing := api.ResizeStatus{Desired: grown, Reason: api.ResizeUnderWay, Message: "works"}
	for name, tt := range map[string]struct {
		statuses []api.ResizeStatus
		code     int
		out, err string
	}{
		"until the end": {[]api.ResizeStatus{older, resizing, {Desired: grown,
			Reason: api.ResizeDone, Message: "has it"}}, ExitOK, "Resized: has it", ""},
		"until a failure": {[]api.ResizeStatus{resizing, {Desired: grown, Reason: api.ResizeFailed,
			Message: "no slot"}}, ExitFailure, "Failed: no slot", "could not be resized"},
	} {
		t.Run(name, func(t *testing.T) {
			kubeconfig, _ := startVMServer(t, tt.statuses...)
			got := resizeVM(t, kubeconfig, "vm/db", "--vcpus", "4", "--wait")
			if got.code != tt.code || !strings.Contains(got.out, tt.out) ||
				!strings.Contains(got.out, "Resizing: works") ||
				!strings.Contains(got.errOut, tt.err) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestResizeVMErrors(t *testing.T) {
	kubeconfig, requests := startVMServer(t)
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
	if len(*requests) > 0 {
		t.Errorf("requests %q", *requests)
	}
}
