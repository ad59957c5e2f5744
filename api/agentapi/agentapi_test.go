package agentapi

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The names on the wire are a contract: scripts read them.
func TestWireFormat(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pod := PodRef{"vms", "launcher-1", "uid-1"}
	container := ContainerRef{"compute", "c1", 42}
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"launcher": {Launcher{
			Pod: pod, Container: container, State: StateRunning, Mode: "enforce", Rule: "vms", Since: since, Notes: []string{"n"}, Refusal: "r",
			Settings: []Setting{{MemlockSetting, "5Gi", "16Gi", "5Gi", "5Gi", StatusApplied, "m", []Term{{"guest memory", 1}}}},
		}, `{"pod":{"namespace":"vms","name":"launcher-1","uid":"uid-1"},"container":{"name":"compute","id":"c1","pid":42},` +
			`"state":"Running","mode":"enforce","rule":"vms","settings":[{"name":"memlock","asked":"5Gi","allowed":"16Gi","given":"5Gi",` +
			`"seen":"5Gi","status":"applied","message":"m","terms":[{"name":"guest memory","bytes":1}]}],"refusal":"r","notes":["n"],` +
			`"since":"2026-01-02T03:04:05Z"}`},
		"little": {Launcher{State: StateRefused},
			`{"pod":{"namespace":"","name":"","uid":""},"container":{"name":""},"state":"Refused","mode":"","since":"0001-01-01T00:00:00Z"}`},
		"event": {Event{since, Warning, ReasonLimitMissing, "m", pod, container},
			`{"time":"2026-01-02T03:04:05Z","type":"Warning","reason":"LimitMissing","message":"m",` +
				`"pod":{"namespace":"vms","name":"launcher-1","uid":"uid-1"},"container":{"name":"compute","id":"c1","pid":42}}`},
		"node": {Node{"v1", "observe", "/etc/p.yaml", NRI{NRISynchronized, since, "e"}, Runtime{"containerd", "2"}, Account{1, 2, 3}},
			`{"version":"v1","mode":"observe","policy":"/etc/p.yaml","nri":{"state":"Synchronized","since":"2026-01-02T03:04:05Z","error":"e"},` +
				`"runtime":{"name":"containerd","version":"2"},"memlock":{"granted":1,"unlimited":2,"max":3}}`},
		"error": {Error{"m"}, `{"message":"m"}`},
	} {
		got, err := json.Marshal(c.value)
		if diff := cmp.Diff(c.want, string(got)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
}
