package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

// secondRoot is the root directory of the second node's agent.
const secondRoot = "/run/mooring-2"

// secondContainerd configures the containerd of the second node.
const secondContainerd = `version = 3
root = "/var/lib/containerd-2"
state = "/run/containerd-2"
[grpc]
  address = "/run/containerd-2/containerd.sock"
[plugins."io.containerd.nri.v1.nri"]
  socket_path = "/run/nri-2/nri.sock"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "localhost/busybox:1"
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/usr/lib/cni"]
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
    SystemdCgroup = true
`

// startSecond starts the second containerd and the second agent, without units of their own.
const startSecond = `set -e
systemd-run --quiet --unit=containerd-2 --property=Type=notify --property=Delegate=yes \
	--property=KillMode=process containerd --config /etc/containerd-2.toml
ctr --address /run/containerd-2/containerd.sock -n k8s.io images import /opt/image.tar >/dev/null
agent=/usr/local/bin/mooring-agent
$agent prepare --root=/run/mooring-2
systemd-run --quiet --unit=mooring-agent-2 $agent --policy=/etc/mooring/policy.yaml \
	--root=/run/mooring-2 --nri-socket=/run/nri-2/nri.sock --bpf-dir=/sys/fs/bpf/mooring-2 \
	--listen=127.0.0.1:9818
i=0
until [ "$(mooring --socket=/run/mooring-2/agent.sock version 2>&1 | grep -c Synchronized)" = 1 ]; do
	i=$((i + 1))
	[ $i -lt 300 ] || { journalctl --no-pager -u mooring-agent-2 >&2; exit 1; }
	sleep 1
done`

// stopSecond removes what startSecond left.
const stopSecond = `systemctl stop mooring-agent-2 containerd-2
umount /run/mooring-2
rm -rf /run/mooring-2 /sys/fs/bpf/mooring-2 /run/nri-2 /run/containerd-2 /etc/containerd-2.toml
rm -rf /var/lib/containerd-2`

// secondSocket makes a node with the second containerd's socket.
type secondSocket struct{ cri.Dialer }

func (secondSocket) ContainerdSocket() string { return "/run/containerd-2/containerd.sock" }

// second starts a second node on the kernel of the first, as kind does: a containerd and an agent
// with directories of their own.
func (f fixture) second(t *testing.T) fixture {
	t.Helper()
	if err := f.PushFrom(t.Context(), strings.NewReader(secondContainerd), "/etc/containerd-2.toml",
		0o644); err != nil {
		t.Fatal(err)
	}
	f.output(t, "sh", "-c", startSecond)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if _, err := f.Output(ctx, "sh", "-c", stopSecond); err != nil {
			t.Error(err)
		}
	})
	c, err := cri.Connect(secondSocket{f.Node})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return fixture{Node: f.Node, cri: c}
}

// onNode returns the launchers of the agent with this root directory, by pod.
func (f fixture) onNode(t *testing.T, root string) map[string]agentapi.Launcher {
	t.Helper()
	var list []agentapi.Launcher
	text := f.output(t, "mooring", "--socket="+root+"/agent.sock", "ps", "--output=json")
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	byPod := map[string]agentapi.Launcher{}
	for _, l := range list {
		byPod[l.Pod.Name] = l
	}
	return byPod
}

// TestTwoNodes runs two nodes on one kernel. The pins and maps of both trackers are in one bpf file
// system, and both see every process start. Each agent knows its own launchers and VMs only, and
// ends no VM of the other.
func TestTwoNodes(t *testing.T) {
	first := setUp(t)
	if f := first.runtime(t).features(t); !f.validator {
		t.Skip("the second node has the default containerd only")
	}
	second := first.second(t)
	at := placements()[2]
	a := first.runLaunchers(t, []placement{at}, vmOptions{})[0]
	b := second.runLaunchers(t, []placement{at}, vmOptions{})[0]
	for f, v := range map[fixture]*vm{first: a, second: b} {
		if err := f.start(t.Context(), v, asDaemon); err != nil {
			t.Fatal(err)
		}
	}
	for root, pods := range map[string][2]string{
		"/run/mooring": {a.pod.Name, b.pod.Name}, secondRoot: {b.pod.Name, a.pod.Name},
	} {
		eventually(t, "the agent of "+root+" to see its VM", func() bool {
			return len(first.onNode(t, root)[pods[0]].VMs) == 1
		}, func() string { return fmt.Sprintf("%+v", first.onNode(t, root)) })
		if l, known := first.onNode(t, root)[pods[1]]; known {
			t.Errorf("the agent of %s knows a launcher of the other node: %+v", root, l)
		}
	}
	second.output(t, "kill", "-KILL", strconv.Itoa(b.launcherProcess.pid))
	second.awaitEnd(t, b.vmProcess)
	first.checkBothAlive(t, a)
}
