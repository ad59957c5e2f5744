package kubetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/mooring-vm/mooring/agent"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/internal/buildinfo"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
)

const nodePolicies = "nodepolicies"

// policyNode is a node with a real agent, without a container runtime. The agent has the rights of
// install.yaml.
type policyNode struct {
	plane   *kube.ControlPlane
	node    *corev1.Node
	objects rest.Interface // of mooring.dev, with all rights
	config  agent.Config
	log     output

	agent *agent.Agent
	stop  func()
}

func newPolicyNode(t *testing.T) *policyNode {
	t.Helper()
	n := &policyNode{plane: Start(t), config: agent.DefaultConfig()}
	n.node = newNode(t, n.plane, "policy-node")
	set := install(t, n.plane)
	var err error
	if n.config.Kubeconfig, err = n.plane.KubeconfigOn(t.Context(), set.Namespace,
		set.Spec.Template.Spec.ServiceAccountName, n.node); err != nil {
		t.Fatal(err)
	}
	awaitRole(t, clientFor(t, loadConfig(t, n.config.Kubeconfig)))
	n.objects = statesClient(t, n.plane.Config())
	dir := t.TempDir()
	n.config.Root, n.config.Cgroup = mountRoot(t, dir), cgroup2(t)
	n.config.NRISocket, n.config.Listen = filepath.Join(dir, "nri.sock"), ""
	n.config.BPFDir, n.config.NodeName = "", n.node.Name
	n.config.Policy = filepath.Join(dir, "policy.yaml")
	file := "apiVersion: mooring.dev/v1alpha1\nkind: NodePolicy\n"
	if err := os.WriteFile(n.config.Policy, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return n
}

// mountRoot mounts the agent's tmpfs. It skips the test where a process may not mount.
func mountRoot(t *testing.T, dir string) string {
	t.Helper()
	root := filepath.Join(dir, "run")
	if err := poddir.Mount(root); errors.Is(err, unix.EPERM) {
		t.Skip("this process may not mount")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(root, 0); err != nil {
			t.Errorf("unmount %s: %v", root, err)
		}
	})
	return root
}

func cgroup2(t *testing.T) string {
	t.Helper()
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if unix.Statfs(mount, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
			return mount
		}
	}
	t.Skip("no cgroup v2 hierarchy")
	return ""
}

func (n *policyNode) start(t *testing.T, kubeconfig string) {
	t.Helper()
	config := n.config
	config.Kubeconfig = kubeconfig
	config.PodsTimeout = time.Second
	var err error
	n.agent, err = agent.New(t.Context(), config, buildinfo.Info{Version: "v1"},
		slog.New(slog.NewTextHandler(&n.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- n.agent.Run(ctx) }()
	n.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		n.stop = func() {}
	}
	t.Cleanup(func() {
		n.stop()
		if t.Failed() {
			t.Logf("log of the agent:\n%s", n.log.String())
		}
	})
}

// await waits for the agent's policy, and for the report in the NodeState.
func (n *policyNode) await(t *testing.T, mode, inForce string, want v1alpha1.PolicyReport) {
	t.Helper()
	var node agentapi.Node
	eventually(t, fmt.Sprintf("mode %s by %s", mode, inForce), func() bool {
		node = n.agent.Node()
		return node.Mode == mode && strings.Contains(node.Policy, inForce)
	})
	eventually(t, fmt.Sprintf("the report %+v", want), func() bool {
		state := &v1alpha1.NodeState{}
		err := n.objects.Get().Resource("nodestates").Name(n.node.Name).Do(t.Context()).Into(state)
		if err != nil || state.Status.Policy == nil {
			return false
		}
		got := *state.Status.Policy
		if !strings.Contains(got.Reason, want.Reason) || (got.UID == "") != (want.Name == "") {
			return false
		}
		got.Reason, got.UID = want.Reason, ""
		return got == want
	})
}

// write creates or replaces a NodePolicy.
func (n *policyNode) write(t *testing.T, p *v1alpha1.NodePolicy) error {
	t.Helper()
	old := &v1alpha1.NodePolicy{}
	err := n.objects.Get().Resource(nodePolicies).Name(p.Name).Do(t.Context()).Into(old)
	if apierrors.IsNotFound(err) {
		t.Cleanup(func() { n.remove(t, p.Name) })
		return n.objects.Post().Resource(nodePolicies).Body(p).Do(t.Context()).Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.ResourceVersion = old.ResourceVersion
	return n.objects.Put().Resource(nodePolicies).Name(p.Name).Body(p).Do(t.Context()).Error()
}

func (n *policyNode) remove(t *testing.T, name string) {
	t.Helper()
	err := n.objects.Delete().Resource(nodePolicies).Name(name).
		Do(context.WithoutCancel(t.Context())).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

func gpuPolicy() *v1alpha1.NodePolicy {
	p := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}}
	p.Spec.Priority, p.Spec.Mode = 10, "enforce"
	p.Spec.Rules = []v1alpha1.NodePolicyRule{{Name: "vms", Namespaces: []string{"vms"}}}
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestNodePolicy is the life of a NodePolicy on a node with a real agent, which never restarts but
// for the case of a restart without the API server.
func TestNodePolicy(t *testing.T) {
	n := newPolicyNode(t)
	n.start(t, n.config.Kubeconfig)
	n.await(t, "observe", n.config.Policy, v1alpha1.PolicyReport{Applied: true})

	// The label selects the policy.
	p := gpuPolicy()
	must(t, n.write(t, p))
	label, _ := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": map[string]string{"pool": "gpu"}}})
	_, err := clientFor(t, n.plane.Config()).CoreV1().Nodes().Patch(t.Context(), n.node.Name,
		types.MergePatchType, label, metav1.PatchOptions{})
	must(t, err)
	n.await(t, "enforce", "NodePolicy gpu, generation 1",
		v1alpha1.PolicyReport{Name: "gpu", Generation: 1, Applied: true})

	// The API server refuses simple faults, the agent all others. The policy in force stays.
	p.Spec.Priority = 2000000
	if err := n.write(t, p); err == nil || !strings.Contains(err.Error(), "spec.priority") {
		t.Errorf("priority 2000000: %v", err)
	}
	p.Spec.Priority, p.Spec.Rules[0].Namespaces = 10, []string{"VMs"}
	must(t, n.write(t, p))
	n.await(t, "enforce", "NodePolicy gpu, generation 1", v1alpha1.PolicyReport{Name: "gpu",
		Generation: 2, Reason: `spec.rules[0].namespaces[0]: "VMs": want a namespace`})

	// An agent that starts without the API server uses the last one that it applied.
	n.stop()
	n.start(t, unreachable(t, n.config.Kubeconfig))
	if node := n.agent.Node(); node.Mode != "enforce" ||
		node.Policy != "NodePolicy gpu, generation 1" {
		t.Errorf("without the API server: mode %s by %s", node.Mode, node.Policy)
	}
	n.stop()
	n.start(t, n.config.Kubeconfig)

	// Two policies with the same priority.
	other := gpuPolicy()
	other.Name, other.Spec.Mode = "cheap", "observe"
	must(t, n.write(t, other))
	n.await(t, "enforce", "NodePolicy gpu, generation 1", v1alpha1.PolicyReport{Name: "cheap",
		Generation: 1, Reason: `NodePolicies "cheap" and "gpu" both select this node`})
	other.Spec.Priority = 11
	must(t, n.write(t, other))
	n.await(t, "observe", "NodePolicy cheap, generation 2",
		v1alpha1.PolicyReport{Name: "cheap", Generation: 2, Applied: true})

	// Without a policy the file is in force again.
	n.remove(t, "cheap")
	n.remove(t, "gpu")
	n.await(t, "observe", n.config.Policy, v1alpha1.PolicyReport{Applied: true})
}

// unreachable returns a kubeconfig with an address at which no server listens.
func unreachable(t *testing.T, kubeconfig string) string {
	t.Helper()
	text, err := os.ReadFile(kubeconfig)
	must(t, err)
	server := loadConfig(t, kubeconfig).Host
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path,
		[]byte(strings.ReplaceAll(string(text), server, "https://127.0.0.1:1")), 0o600))
	return path
}
