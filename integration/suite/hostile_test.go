package suite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

// Paths of the program of integration/suite/hostile and of its requests, on the node and in
// hostile containers.
const (
	hostileDir     = "/opt/suite/hostile"
	hostileProgram = hostileDir + "/hostile"
)

// Bad requests of a pod change no state of any pod. Its containers reach only their own
// socket, and the agent still serves other pods.
func TestHostilePod(t *testing.T) {
	f := setUpVMs(t)
	f.pushProgram(t, "./hostile", hostileProgram)
	hostile, other := f.runModest(t, true), f.runModest(t, false)
	before := f.podStates(t, hostile, other)
	for name, from := range map[string]*cri.Instance{"launcher": hostile.launcher,
		"sidecar that is root": hostile.sidecar} {
		t.Run(name+" sends bad requests", func(t *testing.T) { f.checkBadRequests(t, from, other) })
		t.Run(name+" tries other sockets", func(t *testing.T) {
			f.checkReachableSockets(t, from, other)
		})
	}
	t.Run("launcher floods", func(t *testing.T) { f.floodSocket(t, hostile, other) })
	if diff := cmp.Diff(before, f.podStates(t, hostile, other)); diff != "" {
		t.Errorf("the state of the pods has changed:\n%s", diff)
	}
	f.checkBothAlive(t, hostile)
	f.checkBothAlive(t, other)
}

// runModest runs a VM without libvirt. Its pod may have a memory-lock limit of 1 GiB and has
// less. Its containers do not see the node's /run.
func (f fixture) runModest(t *testing.T, sidecar bool) *vm {
	t.Helper()
	c := withLibvirt()
	c.Args = []string{"sh", "-c", strings.Replace(dutiful, "busybox chroot /node ", "/usr/bin/", 1)}
	c.MemoryLimit = gib / 2
	c.Mounts[hostileDir] = hostileDir
	w := vmOptions{
		container:   &c,
		annotations: map[string]string{api.RequiresLockKey: "true", api.ValueKey: "256Mi"},
		pod: func(annotations map[string]string) cri.Pod {
			p := launcher(annotations)
			p.Namespace = "modest-tenants"
			return p
		},
	}
	if sidecar {
		w.annotations[api.SidecarKey] = sidecarName
		w.sidecar = &cri.Container{Name: sidecarName, MemoryLimit: gib / 8,
			Mounts: map[string]string{hostileDir: hostileDir}}
	}
	v := f.runVM(t, placements()[0], w)
	f.awaitVM(t, v, agentapi.VMRunning)
	f.awaitVMMemlock(t, v, modestLock)
	f.awaitSetting(t, v.pod, agentapi.MemlockSetting, agentapi.StatusApplied)
	return v
}

// modestLock is the limit of runModest's VMs: the annotated value and the container's memory
// limit.
const modestLock = 768 * mib

// podState is the state of a pod that no other pod may change.
type podState struct {
	Agent, Lock, Limit string
	Launcher           agentapi.Launcher
}

func (f fixture) podStates(t *testing.T, vms ...*vm) (all []podState) {
	t.Helper()
	for _, v := range vms {
		l := f.inspect(t, v.pod)
		for i := range l.VMs {
			l.VMs[i].Usage = nil // figures change by themselves
		}
		all = append(all, podState{
			Agent: f.agentPid(t), Lock: f.memlockOf(t, itoa(v.vmProcess.pid)),
			Limit: f.cgroup(t, v.launcher,
				"memory.max"),
			Launcher: agentapi.Launcher{State: l.State, Phase: l.Phase, Rule: l.Rule,
				Settings: l.Settings,
				VMs:      l.VMs, Lease: l.Lease, Resize: l.Resize},
		})
	}
	return all
}

// answer is an answer in the output of integration/suite/hostile.
type answer struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
}

// badRequest is a raw request and its expected answer.
type badRequest struct {
	raw string
	answer
}

func request(method, path, body string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nConnection: close\r\n"+
		"\r\n%s", method, path, len(body), body)
}

// badRequests returns the requests of the tests of agent/podserver, and requests with the
// name of another pod.
func badRequests(other cri.Pod) map[string]badRequest {
	long := strings.Repeat("x", 64<<10)
	invalid, refused, unknown := answer{400, podapi.CodeInvalid}, answer{403, podapi.CodeRefused},
		answer{404, podapi.CodeNotFound}
	return map[string]badRequest{
		"unknown field": {
			request("PUT", podapi.PathLock, `{"atLeast":1,"uid":"`+other.UID+`"}`), invalid},
		"another process": {request("PUT", podapi.PathLock, `{"atLeast":1,"pid":1}`),
			invalid},
		"negative": {request("PUT", podapi.PathLock, `{"atLeast":-1}`), invalid},
		"beyond an int64": {
			request("PUT", podapi.PathLock, `{"atLeast":18446744073709551615}`), invalid},
		"a float": {request("PUT", podapi.PathLock, `{"atLeast":1e18}`), invalid},
		"two bodies": {request("PUT", podapi.PathLock, `{"atMost":0}{"atLeast":1}`),
			invalid},
		"the largest": {
			request("PUT", podapi.PathLock, `{"atLeast":9223372036854775807}`), refused},
		"unlimited": {request("PUT", podapi.PathLock, `{"atLeast":"unlimited"}`),
			refused},
		"beyond the ceiling": {
			request("PUT", podapi.PathLock, fmt.Sprintf(`{"atLeast":%d}`, gib+1)), refused},
		"below what was given": {request("PUT", podapi.PathLock, `{"atMost":0}`), refused},
		"too large a body": {request("PUT", podapi.PathLock, `{"atLeast":`+strings.Repeat(" ",
			podapi.MaxRequest)+`1}`), answer{413, podapi.CodeTooLarge}},
		"too large a report": {request("PUT", podapi.PathReport, `{"error":"`+long+`"}`),
			answer{413, podapi.CodeTooLarge}},
		"too large a header": {"GET " + podapi.PathObserved + " HTTP/1.1\r\nHost: x\r\nX: " +
			long + "\r\n\r\n", answer{Status: 431}},
		"too long a path": {"GET /" + long + " HTTP/1.1\r\nHost: x\r\n\r\n",
			answer{Status: 431}},
		"a lie about its length": {"PUT " + podapi.PathLock + " HTTP/1.1\r\nHost: x\r\n" +
			"Content-Length: -1\r\n\r\n", answer{Status: 400}},
		"no HTTP":            {"\x00\x01\x02\r\n\r\n", answer{Status: 400}},
		"another pod's path": {request("GET", "/v1/pods/"+other.UID+"/seen", ""), unknown},
		"out of the root": {request("GET", "/v1/../../pods/"+other.UID+"/agent.sock", ""),
			answer{Status: 307}},
		"encoded":     {request("GET", "/v1/%2e%2e%2fseen", ""), unknown},
		"the admin's": {request("GET", agentapi.PathLaunchers, ""), unknown},
		"the admin's resize": {request("PUT", agentapi.PathLaunchers+"/"+other.Namespace+"/"+
			other.Name+"/resize", `{"vcpus":1}`), unknown},
		"a proxy's":      {request("GET", "http://169.254.169.254/v1/other", ""), unknown},
		"another method": {request("POST", podapi.PathLock, `{"atLeast":1}`), unknown},
		"an endless hold": {request("PUT", podapi.PathHold, `{"seconds":9223372036854775807}`),
			invalid},
		"an endless lease": {request("PUT", podapi.PathLease, `{"seconds":601,"reason":"x"}`),
			invalid},
		"a lease of long ago": {request("PUT", podapi.PathLease,
			`{"seconds":-9223372036854775808,"reason":"x"}`), invalid},
		"a lease for nothing": {request("PUT", podapi.PathLease, `{"seconds":1,"reason":""}`),
			invalid},
		"another pod's lease": {request("PUT", podapi.PathLease,
			`{"seconds":1,"reason":"x","pod":"`+other.Name+`"}`), invalid},
		"a lease in red": {request("PUT", podapi.PathLease, `{"seconds":1,"reason":"\u001b[31m"}`),
			invalid},
		"an endless need": {request("PUT", podapi.PathMemoryRequirement, `{"bytes":"unlimited"}`),
			invalid},
		"no text": {request("PUT", podapi.PathReport, `{"state":"Done","error":"\u001b[2J"}`),
			invalid},
	}
}

// checkBadRequests sends all bad requests from a container and compares the answers.
func (f fixture) checkBadRequests(t *testing.T, from *cri.Instance, other *vm) {
	t.Helper()
	all := badRequests(other.pod)
	names := slices.Sorted(maps.Keys(all))
	var requests []string
	for _, name := range names {
		requests = append(requests, all[name].raw)
	}
	for n, got := range f.send(t, from, requests...) {
		if want := all[names[n]].answer; got != want {
			t.Errorf("%s: answered %+v, want %+v", names[n], got, want)
		}
	}
}

// send sends requests from a container to its socket.
func (f fixture) send(t *testing.T, from *cri.Instance, requests ...string) (answers []answer) {
	t.Helper()
	text, err := json.Marshal(requests)
	if err == nil {
		err = f.PushFrom(t.Context(), bytes.NewReader(text), hostileDir+"/requests.json", 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := from.Exec(t.Context(), "sh", "-c",
		fmt.Sprintf("exec %s send %s <%s/requests.json", hostileProgram, podapi.Socket, hostileDir))
	if err == nil {
		err = json.Unmarshal([]byte(out), &answers)
	}
	if err != nil || len(answers) != len(requests) {
		t.Fatalf("%d answers to %d requests, %v: %s", len(answers), len(requests), err, out)
	}
	return answers
}

// checkReachableSockets checks that a container reaches only its own socket, and sees no file of
// other pods.
func (f fixture) checkReachableSockets(t *testing.T, from *cri.Instance, other *vm) {
	t.Helper()
	sockets := []string{
		hostileProgram, "reach", podapi.Socket, podDir(other.pod) +
			"/agent.sock", "/run/mooring/../mooring/pods/" + other.pod.UID + "/agent.sock",
		"/run/mooring/pod/../../" + other.pod.UID + "/agent.sock",
		"/proc/1/root" + podDir(other.pod) + "/agent.sock",
		f.ContainerdSocket(), "/run/nri/nri.sock", "/var/run/nri/nri.sock",
		"/run/libvirt/libvirt-sock",
	}
	if got, err := from.Exec(t.Context(), sockets...); err != nil ||
		strings.TrimSpace(got) != podapi.Socket {
		t.Errorf("the container reaches %q, %v, want only its own socket %s", got, err,
			podapi.Socket)
	}
	out, err := from.Exec(t.Context(), "busybox", "find", "/run", "/tmp", "/sys/fs/cgroup")
	if err != nil || !strings.Contains(out, podapi.Socket) {
		t.Fatalf("listing files: %v: %s", err, out)
	}
	for _, hidden := range []string{"/run/mooring/pods", other.pod.UID,
		strings.ReplaceAll(other.pod.UID, "-", "_")} {
		if strings.Contains(out, hidden) {
			t.Errorf("the container sees %s", hidden)
		}
	}
}

// floodSocket floods the socket of a launcher, while another pod raises and lowers its limit.
// After the flood, the agent serves the flooding pod, too.
func (f fixture) floodSocket(t *testing.T, hostile, other *vm) {
	t.Helper()
	start := fmt.Sprintf("%s flood %s /tmp/flooding & flood=$!", hostileProgram, podapi.Socket)
	if err := f.sendLine(t.Context(), hostile, start); err != nil {
		t.Fatal(err)
	}
	if err := f.awaitFile(t.Context(), hostile, "/tmp/flooding"); err != nil {
		t.Fatal(err)
	}
	f.changeLimit(t, other, fmt.Sprintf(`{"atLeast":%d}`, gib), gib)
	f.changeLimit(t, other, fmt.Sprintf(`{"atMost":%d}`, modestLock), modestLock)
	if err := f.sendLine(t.Context(), hostile,
		`kill "$flood"; wait "$flood"; : >/tmp/over`); err != nil {
		t.Fatal(err)
	}
	if err := f.awaitFile(t.Context(), hostile, "/tmp/over"); err != nil {
		t.Fatal(err)
	}
	f.changeLimit(t, hostile, fmt.Sprintf(`{"atLeast":%d}`, modestLock), modestLock)
}

// changeLimit sends a change of the memory-lock limit from a pod, and checks QEMU's limit.
func (f fixture) changeLimit(t *testing.T, v *vm, change string, lock int64) {
	t.Helper()
	if got := f.send(t, v.launcher, request("PUT", podapi.PathLock, change))[0]; got.Status != 200 {
		t.Errorf("answer to pod %s: %+v", v.pod.Name, got)
	}
	if got := f.memlockOf(t, itoa(v.vmProcess.pid)); got != both(lock) {
		t.Errorf("QEMU of pod %s has %s, want %s", v.pod.Name, got, both(lock))
	}
}
