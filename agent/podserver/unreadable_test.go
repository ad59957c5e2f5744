package podserver_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/agent/podserver"
	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/shim/agent"
)

// unreadable has contents of a record's file that this agent cannot read, with a part of the
// reason.
var unreadable = map[string]struct{ content, reason string }{
	"of a later version": {`{"version":2,"vcpus":4,"need":{"pid":101,"bytes":5}}`,
		"version 2 of the file is unknown: this agent reads 0 to 1"},
	"below the versions":  {`{"version":-1}`, "version -1 of the file is unknown"},
	"of another type":     {`{"vcpus":"four"}`, "cannot unmarshal"},
	"torn":                {`{"vcpus":4`, "unexpected end"},
	"empty":               {``, "unexpected end"},
	"with text behind it": {`{"vcpus":4} x`, "invalid character"},
}

// writeRecord writes the file of a pod's record.
func writeRecord(t *testing.T, root, uid, content string) (path string) {
	t.Helper()
	path = filepath.Join(root, "wanted", uid)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// An unreadable record may hold a size. The agent reports it instead of another size, and keeps the
// file for an agent that can read it.
func TestUnreadableRecordIsNoSize(t *testing.T) {
	for name, test := range unreadable {
		t.Run(name, func(t *testing.T) {
			r, root := newRig(t), t.TempDir()
			path := writeRecord(t, root, "a", test.content)
			r.restart(t, root)
			r.showVMs("a", r.vms["a"])

			if err := r.Store.(*podserver.FileStore).Unreadable(); err == nil ||
				!strings.Contains(err.Error(), test.reason) ||
				!strings.Contains(err.Error(), "delete "+path) {
				t.Errorf("Unreadable: %v, want the file with %q", err, test.reason)
			}
			got, err := r.Pod("a").Desired()
			if err != nil || !strings.Contains(got.Error, test.reason) ||
				got.Size != (api.Size{}) || got.DryRun != nil {
				t.Errorf("desired %+v, %v, want an error with %q", got, err, test.reason)
			}
			for _, dry := range []bool{false, true} {
				if _, err := r.RequestSize("vms", "pod-a", api.Size{VCPUs: 8}, dry); err == nil ||
					!strings.Contains(err.Error(), test.reason) {
					t.Errorf("request (dry run %t): %v, want an error with %q", dry, err,
						test.reason)
				}
			}
			must(t, agent.New(r.serve(t, "a")).RequireMemory(t.Context(), 3*gi))
			if left, err := os.ReadFile(path); err != nil || string(left) != test.content {
				t.Errorf("the file is %q, %v, want it unchanged", left, err)
			}

			_, err = r.RequestSize("vms", "pod-b", api.Size{VCPUs: 8}, false)
			must(t, err)
			if other, err := r.Pod("b").Desired(); other.VCPUs != 8 || other.Error != "" ||
				err != nil {
				t.Errorf("desired of the other pod %+v, %v", other, err)
			}

			r.remove("a")
			r.Forget("a")
			if _, err := os.Stat(path); !os.IsNotExist(err) {
				t.Errorf("the file of a deleted pod: %v, want none", err)
			}
		})
	}
}

// An unreadable record may hold a memory requirement. It is unknown until the VM reports one, or
// ends.
func TestUnreadableRecordIsNoRequirement(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"the VM reports it": func(r *rig) {
			must(t, agent.New(r.serve(t, "a")).RequireMemory(t.Context(), 3*gi))
			if got := r.requirement("a"); got != 3*gi {
				t.Errorf("requirement %d, want the reported one", got)
			}
		},
		"the VM ends": func(r *rig) {
			r.startVM("a", 300)
			if got := r.requirement("a"); got != 0 {
				t.Errorf("requirement %d of another VM, want none", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, root := newRig(t), t.TempDir()
			writeRecord(t, root, "a", `{"version":2}`)
			r.restart(t, root)
			r.showVMs("a", r.vms["a"])
			r.showVMs("b", r.vms["b"])
			if r.requirement("a") != registry.UnknownRequirement || r.requirement("b") != 0 {
				t.Errorf("requirements %d and %d, want one to be unknown", r.requirement("a"),
					r.requirement("b"))
			}
			end(r)
		})
	}
}

// With Kubernetes the pod's object has the size, so an unreadable record changes nothing.
func TestUnreadableRecordBesideKubernetes(t *testing.T) {
	r, root := newRig(t), t.TempDir()
	writeRecord(t, root, "a", `{"version":2}`)
	r.restart(t, root)
	r.Desired = specs{"a": {Size: api.Size{VCPUs: 2}}}
	if got, err := r.Pod("a").Desired(); got.VCPUs != 2 || got.Error != "" || err != nil {
		t.Errorf("desired %+v, %v, want the size of the pod's object", got, err)
	}
}

// A size requested before the node joined Kubernetes does not replace the pod's own.
func TestStoredSizeBesideKubernetes(t *testing.T) {
	r := newRig(t)
	_, err := r.RequestSize("vms", "pod-a", api.Size{VCPUs: 8}, false)
	must(t, err)
	r.Desired = specs{"a": {Size: api.Size{VCPUs: 2}}}
	if got, err := r.Pod("a").Desired(); got.VCPUs != 2 || err != nil {
		t.Errorf("desired %+v, %v, want the size of the pod's object", got, err)
	}
}

// A directory in the place of a record concerns its pod only.
func TestRecordIsADirectory(t *testing.T) {
	r, root := newRig(t), t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "wanted", "a"), 0o700))
	r.restart(t, root)
	if got, err := r.Pod("a").Desired(); got.Error == "" || err != nil {
		t.Errorf("desired %+v, %v, want an error", got, err)
	}
}

// An agent of v0.1.0 stored records without a version, and ignores it.
func TestRecordOfTheFirstVersion(t *testing.T) {
	r, root := newRig(t), t.TempDir()
	path := writeRecord(t, root, "a", `{"vcpus":4,"memory":4294967296,"need":{"pid":101,`+
		`"startTime":`+strconv.FormatUint(r.vms["a"].Ticks(), 10)+`,"bytes":5}}`)
	r.restart(t, root)
	r.showVMs("a", r.vms["a"])
	want := api.Size{VCPUs: 4, Memory: 4 << 30}
	if got, err := r.Pod("a").Desired(); got.Size != want || got.Error != "" || err != nil {
		t.Errorf("desired %+v, %v, want %+v", got, err, want)
	}
	if got := r.requirement("a"); got != 5 {
		t.Errorf("requirement %d, want 5", got)
	}
	_, err := r.RequestSize("vms", "pod-a", api.Size{VCPUs: 2}, false)
	must(t, err)
	left, err := os.ReadFile(path)
	if want := `{"version":1,"vcpus":2,`; err != nil || !strings.HasPrefix(string(left), want) {
		t.Errorf("the file is %s, %v, want the beginning %s", left, err, want)
	}
}
