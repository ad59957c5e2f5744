package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/agent/doctor"
	"github.com/mooring-vm/mooring/cli"
	"github.com/mooring-vm/mooring/cli/verify"
)

// TestHelmTest runs the chart's own test: CRDs, agents, fences, controller and webhooks work.
func TestHelmTest(t *testing.T) {
	start(t)
	out, err := helm(t.Context(), "test", "mooring", "--namespace="+system, "--logs",
		"--timeout=10m")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, part := range verify.Parts() {
		if !strings.Contains(out, part+": ok\n") {
			t.Errorf("no %q in\n%s", part+": ok", out)
		}
	}
}

// TestOperate runs the commands of docs/how-to/laptop.md beside a VM, with the suite's kubeconfig.
func TestOperate(t *testing.T) {
	c := start(t)
	c.create(t, launcher("operated", withDevice(), "--vm"))
	c.awaitRunning(t, "operated")
	c.awaitEvent(t, "operated", "VMStarted")
	for _, command := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"status", operateStatus}, {"ps", operatePs}, {"top", operateTop},
		{"events", operateEvents}, {"doctor", operateDoctor}, {"sysdump", operateSysdump},
	} {
		t.Run(command.name, func(t *testing.T) { command.run(t, c) })
	}
}

// kubectlMooring runs `kubectl mooring` and returns its exit code, its output and its messages.
func kubectlMooring(ctx context.Context, args ...string) (code int, out, messages string) {
	var stdout, stderr bytes.Buffer
	p := cli.Program{Name: "kubectl-mooring", Out: &stdout, ErrOut: &stderr, Now: time.Now}
	code = p.Run(ctx, args)
	return code, stdout.String(), stderr.String()
}

// awaitOutput runs a command until its output has all these words. Agents write their state with a
// delay.
func awaitOutput(t *testing.T, command string, words ...string) (out string) {
	t.Helper()
	eventually(t, command, func(ctx context.Context) error {
		code, now, messages := kubectlMooring(ctx, strings.Fields(command)...)
		out = now
		if code != cli.ExitOK || !containsAll(out, words) {
			return fmt.Errorf("exit code %d, want %q in\n%s%s", code, words, out, messages)
		}
		return nil
	})
	return out
}

func operateStatus(t *testing.T, c *cluster) {
	code, out, messages := kubectlMooring(t.Context(), "status", "--wait", "--timeout=10m", "-o",
		"json")
	if code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, messages)
	}
	var status struct {
		Nodes []struct{ Node, Status, Mode, Runtime string }
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, n := range status.Nodes {
		nodes = append(nodes, n.Node)
		if n.Status != "Ready" || n.Mode != "enforce" || n.Runtime == "" {
			t.Errorf("got %+v", n)
		}
	}
	if want := c.agentNodes(t); !slices.Equal(nodes, want) {
		t.Errorf("got nodes %v, want %v", nodes, want)
	}
}

// agentNodes are the names of the nodes with an agent, sorted.
func (c *cluster) agentNodes(t *testing.T) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(c.agentsByNode(t)))
}

func operatePs(t *testing.T, c *cluster) {
	awaitOutput(t, "ps -A", "operated", "Active", "6Gi", c.nodeOf(t, "operated").Name)
}

func operateTop(t *testing.T, c *cluster) {
	eventually(t, "a sample of the VM", func(ctx context.Context) error {
		_, out, messages := kubectlMooring(ctx, "top", "-n", namespace, "-o", "json")
		var used []struct {
			Node, Memlock string
			Pod           struct{ Name string }
			Memory        int64
			CPU           *int64
		}
		if err := json.Unmarshal([]byte(out), &used); err != nil {
			return fmt.Errorf("%w: %s", err, messages)
		}
		for _, u := range used {
			if u.Pod.Name == "operated" && u.Memory > 0 && u.CPU != nil && u.Memlock == "6Gi" {
				return nil
			}
		}
		return fmt.Errorf("got %s", out)
	})
}

func operateEvents(t *testing.T, _ *cluster) {
	awaitOutput(t, "events "+namespace+"/operated", "VMStarted")
}

// nodeReport is a node in the output of `doctor --all-nodes -o json`, and in a sysdump.
type nodeReport struct {
	Node     string
	Error    string
	Findings []doctor.Finding
	Problems int
}

// operateDoctor expects an answer of each node, through pods/exec.
func operateDoctor(t *testing.T, c *cluster) {
	code, out, messages := kubectlMooring(t.Context(), "doctor", "--all-nodes", "-o", "json")
	var fleet struct{ Nodes []nodeReport }
	if err := json.Unmarshal([]byte(out), &fleet); err != nil {
		t.Fatalf("%v: exit code %d: %s", err, code, messages)
	}
	var nodes []string
	for _, n := range fleet.Nodes {
		nodes = append(nodes, n.Node)
		c.wantExamined(t, n)
	}
	if want := c.agentNodes(t); !slices.Equal(nodes, want) {
		t.Errorf("got nodes %v, want %v", nodes, want)
	}
	if code != cli.ExitOK {
		t.Errorf("exit code %d: %s", code, messages)
	}
}

// wantExamined expects the doctor to have seen this node, and not the agent's container.
func (c *cluster) wantExamined(t *testing.T, n nodeReport) {
	t.Helper()
	node, err := c.client.CoreV1().Nodes().Get(t.Context(), n.Node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	info := node.Status.NodeInfo
	_, containerd, _ := strings.Cut(info.ContainerRuntimeVersion, "://")
	found := map[string]string{}
	for _, f := range n.Findings {
		found[f.Check] = string(f.Status) + ": " + f.Found
		if f.Status != doctor.OK {
			t.Logf("node %s: %s: %s: %s", n.Node, f.Check, f.Status, f.Found)
		}
	}
	for check, words := range map[string]string{"bpffs": "/sys/fs/bpf",
		"kernel": info.KernelVersion, "containerd": containerd, "agent": "", "tracker": ""} {
		got := found[check]
		if !strings.HasPrefix(got, string(doctor.OK)) || !strings.Contains(got, words) {
			t.Errorf("node %s: %s: got %q, want ok and %q", n.Node, check, got, words)
		}
	}
	if n.Error != "" || n.Problems > 0 {
		t.Errorf("node %s: %d problems; error %q", n.Node, n.Problems, n.Error)
	}
}

// operateSysdump expects logs and findings in the archive, and no secret.
func operateSysdump(t *testing.T, c *cluster) {
	file := filepath.Join(t.TempDir(), "dump.tar.gz")
	code, _, messages := kubectlMooring(t.Context(), "sysdump", "--file="+file)
	if code != cli.ExitOK || strings.Contains(messages, "not in the archive") {
		t.Errorf("exit code %d: %s", code, messages)
	}
	texts, err := untar(file)
	if err != nil {
		t.Fatal(err)
	}
	for node, agent := range c.agentsByNode(t) {
		if log := texts["logs/"+agent.Name+"/agent.log"]; !strings.Contains(log, `"level"`) {
			t.Errorf("the log of %s has %d bytes", agent.Name, len(log))
		}
		var report nodeReport
		if err := json.Unmarshal([]byte(texts["doctor/"+node+".json"]), &report); err != nil {
			t.Errorf("the findings of node %s: %v", node, err)
			continue
		}
		c.wantExamined(t, report)
	}
	for _, name := range []string{"status.json", "nodestates.yaml", "events.yaml"} {
		if !strings.Contains(texts[name], c.agentNodes(t)[0]) {
			t.Errorf("%s has %d bytes", name, len(texts[name]))
		}
	}
	c.wantNoSecret(t, texts)
}

// untar returns the files of a sysdump by their names below its folder.
func untar(file string) (texts map[string]string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	texts = map[string]string{}
	archive := tar.NewReader(unzipped)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return texts, nil
		}
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			return nil, err
		}
		_, name, _ := strings.Cut(header.Name, "/")
		texts[name] = string(text)
	}
}

// secretText matches objects of kind Secret, JSON Web Tokens and private keys.
var secretText = regexp.MustCompile(
	`(?m)^ *"?kind"?: "?Secret(List)?"?,?$|eyJ[\w-]{8,}\.[\w-]{8,}\.|PRIVATE KEY-----`)

// wantNoSecret looks for values of Secrets, and for texts that look like secrets. Certificates are
// public.
func (c *cluster) wantNoSecret(t *testing.T, texts map[string]string) {
	t.Helper()
	secrets, err := c.client.CoreV1().Secrets(metav1.NamespaceAll).List(t.Context(),
		metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(secrets.Items, func(s corev1.Secret) bool {
		return s.Namespace == system
	}) {
		t.Errorf("namespace %s has no Secret", system)
	}
	for name, text := range texts {
		if found := secretText.FindString(text); found != "" {
			t.Errorf("%s has %q", name, found)
		}
		for _, s := range secrets.Items {
			for key, value := range s.Data {
				isCertificate := strings.HasSuffix(key, ".crt")
				if !isCertificate && len(value) >= 8 && (strings.Contains(text, string(value)) ||
					strings.Contains(text, base64.StdEncoding.EncodeToString(value))) {
					t.Errorf("%s has %s of Secret %s/%s", name, key, s.Namespace, s.Name)
				}
			}
		}
	}
}
