package tie_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// Only the VM processes that the pod's stop handler is to shut down count. The earliest due time
// is that of the request, whose text has no details of the node.
func TestPodShutdownRequest(t *testing.T) {
	const now, soon, late = host.Boottime(100), host.Boottime(200), host.Boottime(300)
	asked := func(due host.Boottime) tie.VM {
		return tie.VM{Stage: tie.StageShutdown, Due: due, Why: "the launcher ended: cgroup /x"}
	}
	byLibvirt := asked(soon)
	byLibvirt.Domain = &tie.Domain{Name: "web"}
	domainByPod := byLibvirt
	domainByPod.PodAsked = true
	terminated, living := asked(soon), asked(soon)
	terminated.Stage, living.Stage = tie.StageTerm, tie.StageNone
	connected := tie.StopHandler{Connected: true}
	awaited := func(until host.Boottime) tie.StopHandler {
		return tie.StopHandler{AwaitUntil: until}
	}
	request := func(due host.Boottime) *tie.ShutdownRequest {
		return &tie.ShutdownRequest{Why: "the launcher ended", Due: due}
	}
	for name, test := range map[string]struct {
		handler tie.StopHandler
		vms     []tie.VM
		want    *tie.ShutdownRequest
	}{
		"one VM process":        {connected, []tie.VM{asked(soon)}, request(soon)},
		"no VM process":         {connected, nil, nil},
		"no stop handler":       {tie.StopHandler{}, []tie.VM{asked(soon)}, nil},
		"it may come back":      {awaited(now + 1), []tie.VM{asked(soon)}, request(soon)},
		"it stayed away":        {awaited(now), []tie.VM{asked(soon)}, nil},
		"the earliest is first": {connected, []tie.VM{asked(soon), asked(late)}, request(soon)},
		"the earliest is last":  {connected, []tie.VM{asked(late), asked(soon)}, request(soon)},
		"libvirt is asked":      {connected, []tie.VM{byLibvirt}, nil},
		"the pod of a domain":   {connected, []tie.VM{domainByPod}, request(soon)},
		"libvirt and the pod":   {connected, []tie.VM{byLibvirt, asked(late)}, request(late)},
		"after SIGTERM":         {connected, []tie.VM{terminated}, nil},
		"no stop":               {connected, []tie.VM{living}, nil},
	} {
		got := (&tie.Tie{StopHandler: test.handler, VMs: test.vms}).PodShutdownRequest(now)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
