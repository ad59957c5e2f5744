package suite

import (
	"bytes"
	"context"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-vm/mooring/hack/kube"
)

const (
	nodeName = "node-1"

	// kubeletDir has kubelet and its files on the node.
	kubeletDir = "/opt/suite/kubelet"

	// agentDropIn gives the agent access to the API server.
	agentDropIn = "/etc/systemd/system/mooring-agent.service.d/kubernetes.conf"
)

// kubeletConfig is for pods with the node's network and with existing images.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
address: 127.0.0.1
readOnlyPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}}
authorization: {mode: Webhook}
makeIPTablesUtilChains: false
failSwapOn: false
resolvConf: ""
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 10Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
nodeStatusUpdateFrequency: 2s
syncFrequency: 5s
`

// cluster is a control plane on this machine, with one node.
type cluster struct {
	fixture
	*kubernetes.Clientset
}

// joinCluster starts a control plane, and a kubelet on the node that joins it. The agent gets
// the rights in install.yaml. Control plane and kubelet end with the test.
func (f fixture) joinCluster(t *testing.T) cluster {
	t.Helper()
	plane, err := kube.Start(t.Context(),
		kube.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	c := cluster{fixture: f, Clientset: client}
	f.forwardAPIServer(t, plane.Config().Host)
	c.makeAccounts(t, plane)
	// Without a Node, a slow kubelet would need two more minutes to become ready.
	if _, err := c.CoreV1().Nodes().Create(t.Context(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{}); err !=
		nil {
		t.Fatal(err)
	}
	f.startKubelet(t)
	c.awaitNode(t)
	return c
}

// forwardAPIServer makes the API server reachable on the node, at its address on this machine.
func (f fixture) forwardAPIServer(t *testing.T, server string) {
	t.Helper()
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	l, err := f.Forward(at.Host, at.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
}

// makeAccounts writes the kubeconfig files of kubelet and agent to the node.
func (c cluster) makeAccounts(t *testing.T, plane *kube.ControlPlane) {
	t.Helper()
	manifest, err := os.ReadFile("../../deploy/kubernetes/install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plane.Apply(t.Context(), bytes.NewReader(manifest)); err != nil {
		t.Fatal(err)
	}
	for _, account := range []string{"kubelet", "default"} {
		created := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}
		if _, err := c.CoreV1().ServiceAccounts("default").Create(t.Context(), created,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	all := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kubelet"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default",
			Name: "kubelet"}},
	}
	if _, err := c.RbacV1().ClusterRoleBindings().Create(t.Context(), all,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.output(t, "mkdir", "-p", kubeletDir)
	for file, account := range map[string][2]string{"kubelet.conf": {"default", "kubelet"},
		"agent.conf": {"mooring-system", "mooring-agent"}} {
		path, err := plane.Kubeconfig(t.Context(), account[0], account[1])
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Push(t.Context(), path, kubeletDir+"/"+file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// startKubelet starts kubelet, and restarts the agent with access to the API server.
func (f fixture) startKubelet(t *testing.T) {
	t.Helper()
	programs, err := kube.Build(t.Context(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer programs.Close()
	if err := f.Push(t.Context(), filepath.Join(programs.Dir, "kubelet"), kubeletDir+"/kubelet",
		0o755); err != nil {
		t.Fatal(err)
	}
	f.write(t, kubeletDir+"/config.yaml", kubeletConfig)
	f.nodeProcess(t, "exec "+kubeletDir+"/kubelet --config="+kubeletDir+
		"/config.yaml --kubeconfig="+kubeletDir+"/kubelet.conf --hostname-override="+nodeName)
	f.write(t, agentDropIn,
		"[Service]\nEnvironment=\"MOORING_AGENT_FLAGS=--kubeconfig="+kubeletDir+
			"/agent.conf --node-name="+nodeName+"\"\n")
	reload := func(ctx context.Context) error {
		if _, err := f.Output(ctx, "systemctl", "daemon-reload"); err != nil {
			return err
		}
		return f.agent.Restart(ctx)
	}
	if err := reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := cleanUpContext(t)
		if _, err := f.Output(ctx, "rm", agentDropIn); err != nil {
			t.Error(err)
		}
		if err := reload(ctx); err != nil {
			t.Error(err)
		}
	})
}

func (f fixture) write(t *testing.T, path, content string) {
	t.Helper()
	if err := f.PushFrom(t.Context(), strings.NewReader(content), path, 0o644); err != nil {
		t.Fatal(err)
	}
}

// awaitNode waits until kubelet has registered the node as ready.
func (c cluster) awaitNode(t *testing.T) {
	t.Helper()
	last := ""
	within(t, 3*waitTimeout, "the node to be ready", func() bool {
		n, err := c.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			last = err.Error()
			return false
		}
		for _, condition := range n.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				last = condition.Message
				return condition.Status == corev1.ConditionTrue
			}
		}
		return false
	}, func() string { return last })
}
