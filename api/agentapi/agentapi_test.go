package agentapi

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
)

// The JSON names are a contract for scripts.
func TestWireFormat(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pod := PodRef{"vms", "launcher-1", "uid-1"}
	container := ContainerRef{"compute", "c1", 42}
	age := 2.5
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"launcher": {Launcher{
			Pod: pod, Container: container, State: StateRunning, Mode: "enforce", Rule: "vms",
			Since: since, Notes: []string{"n"}, Refusal: "r",
			Settings: []Setting{{MemlockSetting, "5Gi", "16Gi", "5Gi", "5Gi", StatusApplied, "m",
				[]Term{{"guest memory", 1}}}},
		},
			`{"pod":{"namespace":"vms","name":"launcher-1","uid":"uid-1"},"container":{"name":"compute","id":"c1","pid":42},` +
				`"state":"Running","mode":"enforce","rule":"vms","settings":[{"name":"memlock","asked":"5Gi","allowed":"16Gi","given":"5Gi",` +
				`"seen":"5Gi","status":"applied","message":"m","terms":[{"name":"guest ` +
				`memory","bytes":1}]}],"refusal":"r","notes":["n"],` +
				`"since":"2026-01-02T03:04:05Z"}`},
		"little": {Launcher{State: StateRefused},
			`{"pod":{"namespace":"","name":"","uid":""},"container":{"name":""},"state":"Refused","mode":"","since":"0001-01-01T00:00:00Z"}`},
		"followed": {Launcher{
			State: StateRunning, Phase: PhaseDraining, Why: "w",
			Heartbeat: &Heartbeat{30, &age, true}, Lease: &Lease{"migration", since},
			VMs: []VM{{43, 900, "qemu-kvm", "vm-1", VMStopping, since, "w", nil},
				{PID: 44, StartTime: 901, Executable: "qemu-kvm", State: VMRunning}},
		},
			`{"pod":{"namespace":"","name":"","uid":""},"container":{"name":""},"state":"Running","mode":"","since":"0001-01-01T00:00:00Z",` +
				`"phase":"Draining","why":"w","vms":[{"pid":43,"startTime":900,"executable":"qemu-kvm","domain":"vm-1","state":"Stopping",` +
				`"since":"2026-01-02T03:04:05Z","why":"w"},{"pid":44,"startTime":901,"executable":"qemu-kvm","state":"Running",` +
				`"since":"0001-01-01T00:00:00Z"}],"heartbeat":{"watchdog":30,"age":2.5,"expired":true},` +
				`"lease":{"reason":"migration","until":"2026-01-02T03:04:05Z"}}`},
		"limits": {Launcher{Limits: podapi.Limits{Memory: 1 << 30}},
			`{"pod":{"namespace":"","name":"","uid":""},"container":{"name":""},"state":"",` +
				`"mode":"","since":"0001-01-01T00:00:00Z","limits":{"memory":1073741824}}`},
		"usage": {Usage{Memory: 3, Locked: 2, Pinned: 1},
			`{"memory":3,"locked":2,"pinned":1}`},
		"usage with iommufd": {Usage{Pinned: 1, PinnedPer: PerUser},
			`{"memory":0,"locked":0,"pinned":1,"pinnedPer":"user"}`},
		"no heartbeat yet": {Heartbeat{Watchdog: 0.5}, `{"watchdog":0.5}`},
		"lease request": {LeaseRequest{300, "migration"},
			`{"seconds":300,"reason":"migration"}`},
		"event": {Event{since, Warning, ReasonLimitMissing, "m", pod, container, nil, nil},
			`{"time":"2026-01-02T03:04:05Z","type":"Warning","reason":"LimitMissing","message":"m",` +
				`"pod":{"namespace":"vms","name":"launcher-1","uid":"uid-1"},"container":{"name":"compute","id":"c1","pid":42}}`},
		"event of a resize": {
			Event{Reason: ReasonResizeDone, Desired: &DesiredSize{7, api.Size{VCPUs: 4}},
				Report: &podapi.Report{Generation: 7, State: podapi.StateDone}},
			`{"time":"0001-01-01T00:00:00Z","type":"","reason":"ResizeDone","message":"","pod":{"namespace":"","name":"","uid":""},` +
				`"container":{"name":""},"wanted":{"generation":7,"vcpus":4},"report":{"generation":7,"state":"Done"}}`},
		"node": {Node{"v1", "observe", "/etc/p.yaml", NRI{NRISynchronized, since, "e"},
			Runtime{"containerd", "2"}, Account{1, 2, 3, 4}, Tracker{true, "e", 4, 5, 6, 7, 8, 9, 10,
				11}, podapi.Headroom{Memory: 12, CPUs: 13}, true},
			`{"version":"v1","mode":"observe","policy":"/etc/p.yaml","nri":{"state":"Synchronized","since":"2026-01-02T03:04:05Z","error":"e"},` +
				`"runtime":{"name":"containerd","version":"2"},"memlock":{"granted":1,"unlimited":2,"max":3,"unbounded":4},` +
				`"tracker":{"available":true,"error":"e","processes":4,` +
				`"maxProcesses":5,"groups":6,"maxGroups":7,"lostEvents":8,"lostProcesses":9,` +
				`"stale":10,"leftOut":11},` +
				`"headroom":{"memoryCapacity":12,"cpuCapacity":13},"inPod":true}`},
		"node without headroom": {Node{}.Headroom, `{}`},
		"no tracker":            {Tracker{Error: "e"}, `{"available":false,"error":"e"}`},
		"error":                 {Error{"m"}, `{"message":"m"}`},
	} {
		got, err := json.Marshal(c.value)
		if diff := cmp.Diff(c.want, string(got)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
}
