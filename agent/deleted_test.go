package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/agent/kube"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// remains has what the node has of pods.
type remains struct {
	launchers           []registry.Launcher
	ready, cgroupErr    error
	unreadableTie       error
	cgroup, tied        bool
	running, unreadable []tie.Domain
	domainsErr          error
}

func (r *remains) launcher(uid string, state agentapi.State, domain string, vms ...agentapi.VM) {
	l := registry.Launcher{Launcher: agentapi.Launcher{
		Pod:       agentapi.PodRef{Namespace: "vms", Name: "db", UID: uid},
		Container: agentapi.ContainerRef{ID: "c-" + uid, Name: "compute"},
		State:     state, VMs: vms}}
	l.Domain = domain
	r.launchers = append(r.launchers, l)
}

func (r *remains) ends() *podEnds {
	known := registry.New()
	for _, l := range r.launchers {
		known.Put(l)
	}
	return &podEnds{
		registry: known, ready: func() error { return r.ready },
		cgroupExists:  func(string) (bool, error) { return r.cgroup, r.cgroupErr },
		tied:          func(string) bool { return r.tied },
		unreadableTie: func(string) error { return r.unreadableTie },
		domains: func() (running, unreadable []tie.Domain, err error) {
			return r.running, r.unreadable, r.domainsErr
		},
	}
}

// TestDeletedPodEnded: the agent confirms the end of a pod only if each source answers, and none
// has anything of the pod.
func TestDeletedPodEnded(t *testing.T) {
	unknown := errors.New("no answer")
	qemu := agentapi.VM{PID: 7, Executable: "qemu-kvm", State: agentapi.VMStopping}
	db := tie.Domain{Name: "db", UUID: "5530f9f3-5627-4dec-933e-74ce04c51e18"}
	owned := db
	owned.Owner.UID = "u1"
	foreign := db
	foreign.Owner.UID = "u2"
	for name, tt := range map[string]struct {
		change func(*remains)
		want   string // part of the reason; empty: ended
	}{
		"nothing":           {func(*remains) {}, ""},
		"agent not ready":   {func(r *remains) { r.ready = unknown }, "no answer"},
		"cgroup":            {func(r *remains) { r.cgroup = true }, "cgroup exists"},
		"unreadable cgroup": {func(r *remains) { r.cgroupErr = unknown }, "no answer"},
		"cgroup with a VM": {func(r *remains) {
			r.cgroup = true
			r.launcher("u1", agentapi.StateRunning, "", qemu)
		}, "VM process 7 (qemu-kvm) is Stopping"},
		"launcher":         {func(r *remains) { r.launcher("u1", agentapi.StateRunning, "") }, "Running"},
		"stopped launcher": {func(r *remains) { r.launcher("u1", agentapi.StateStopped, "") }, ""},
		"refused launcher": {func(r *remains) { r.launcher("u1", agentapi.StateRefused, "") }, ""},
		"a VM without its launcher": {func(r *remains) {
			r.launcher("u1", agentapi.StateStopped, "", qemu)
		}, "process 7"},
		"another pod's launcher": {func(r *remains) {
			r.launcher("u2", agentapi.StateRunning, "", qemu)
		}, ""},
		"tie":                {func(r *remains) { r.tied = true }, "is ending"},
		"unreadable tie":     {func(r *remains) { r.unreadableTie = unknown }, "no answer"},
		"no list of domains": {func(r *remains) { r.domainsErr = unknown }, "no answer"},
		"unreadable domain":  {func(r *remains) { r.unreadable = []tie.Domain{db} }, "domain db"},
		"own domain":         {func(r *remains) { r.running = []tie.Domain{owned} }, "domain db of"},
		"foreign domain":     {func(r *remains) { r.running = []tie.Domain{foreign} }, ""},
		"declared domain":    {func(r *remains) { r.running = []tie.Domain{db} }, "declares"},
		"declared domain of another launcher": {func(r *remains) {
			r.running = []tie.Domain{db}
			r.launcher("u2", agentapi.StateRunning, "db")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := &remains{}
			tt.change(r)
			got := r.ends().report(kube.DeletedPod{PodRef: agentapi.PodRef{UID: "u1"},
				Domains: []string{"db"}})
			if got.Ended != (tt.want == "") || !strings.Contains(got.Reason, tt.want) ||
				got.Pod.UID != "u1" {
				t.Errorf("got %+v, want %q", got, tt.want)
			}
		})
	}
}
