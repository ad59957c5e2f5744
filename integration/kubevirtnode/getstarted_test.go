package kubevirtnode

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/hack/kube"
)

// page has the commands that TestGetStarted runs.
const page = "docs/get-started/kubevirt.md"

// mostCommands is the largest number of lines with commands on the page.
const mostCommands = 15

// TestGetStarted runs the commands of the page for users of KubeVirt, as written but for REGISTRY
// and TAG, and checks their main effects. fitExamples fits the files to the cluster.
func TestGetStarted(t *testing.T) {
	c := startTwoNodes(t)
	c.observeOnly(t)
	blocks := commands(t)
	shell := newShell(t)
	fitExamples(t, shell.dir)
	t.Cleanup(func() { c.removeExamples(t) })
	vmi := newVMI("vm", nil)

	shell.run(t, blocks[0])        // switch on
	out := shell.run(t, blocks[1]) // run a VM
	c.get(t, vmi)
	qemu := c.on(t, vmi.Status.NodeName).qemu(t, vmi)
	if !slices.Contains(strings.Fields(out), qemu) {
		t.Errorf("no VM process %s in the output:\n%s", qemu, out)
	}
	source := c.launcher(t, vmi)

	c.checkNoRoom(t)
	shell.run(t, blocks[2]) // migrate it
	c.awaitMoved(t, vmi, source.Spec.NodeName)
	if now := c.tied(t, vmi).Pod.Name; now == source.Name {
		t.Errorf("the VM is tied to %s, the source of the migration", now)
	}
	c.awaitReserved(t, vmi)

	pod := c.launcher(t, vmi).Name
	shell.run(t, blocks[3]) // grow it
	c.awaitEvent(t, pod, string(agentapi.ReasonResizeDone))
	eventually(t, "KubeVirt to report more than 2Gi", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(vmi), vmi); err != nil {
			return err
		}
		m := vmi.Status.Memory
		if m == nil || m.GuestCurrent == nil ||
			m.GuestCurrent.Cmp(resource.MustParse("2Gi")) <= 0 {
			return fmt.Errorf("its status is %+v", m)
		}
		return nil
	})

	shell.run(t, blocks[4]) // end it
	c.awaitEvent(t, pod, string(agentapi.ReasonStopConfirmed))
}

// observeOnly puts Mooring into the state before the page: mode observe, no sidecar. When t ends,
// the suite's values are back.
func (c *cluster) observeOnly(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { c.upgrade(context.WithoutCancel(t.Context()), t) })
	c.upgrade(t.Context(), t, "--set=mode=observe", "--set=webhooks.shimImage=",
		"--set-file=agent.policy="+filepath.Join(top, "deploy/policy/observe.yaml"))
}

// checkNoRoom expects that the quota of the page has no room for a second launcher.
func (c *cluster) checkNoRoom(t *testing.T) {
	t.Helper()
	q := &corev1.ResourceQuota{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "default"},
		q); err != nil {
		t.Fatal(err)
	}
	hard, used := q.Status.Hard[corev1.ResourceLimitsCPU], q.Status.Used[corev1.ResourceLimitsCPU]
	if used.IsZero() || 2*used.MilliValue() <= hard.MilliValue() {
		t.Errorf("%s of %s CPUs are used: there is room for a second launcher", used.String(),
			hard.String())
	}
}

// TestCommands counts the lines, without a cluster.
func TestCommands(t *testing.T) {
	if all := strings.Join(commands(t), ""); strings.Count(all, "\n") > mostCommands {
		t.Errorf("%s has more than %d lines of commands:\n%s", page, mostCommands, all)
	}
}

// commands are the indented blocks of the page below numbered headings.
func commands(t *testing.T) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, page))
	if err != nil {
		t.Fatal(err)
	}
	for section := range strings.SplitSeq(string(text), "\n## ") {
		if !strings.ContainsAny(section[:1], "123456789") {
			continue
		}
		var block strings.Builder
		fenced := false
		for line := range strings.Lines(section) {
			if strings.HasPrefix(line, "```") {
				fenced = !fenced
			}
			if command, ok := strings.CutPrefix(line, "    "); ok && !fenced {
				block.WriteString(command)
			}
		}
		blocks = append(blocks, block.String())
	}
	if len(blocks) != 5 {
		t.Fatalf("%s has %d parts, want 5", page, len(blocks))
	}
	return blocks
}

// shell runs the commands of each part of the page in a new shell.
type shell struct{ dir, path string }

// newShell returns a shell with helm, kubectl and mooring, in a directory like the checkout.
func newShell(t *testing.T) *shell {
	t.Helper()
	root, err := filepath.Abs(top)
	if err != nil {
		t.Fatal(err)
	}
	kubernetes, err := kube.Build(t.Context(), slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kubernetes.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &shell{dir: t.TempDir()}
	build := exec.CommandContext(t.Context(), "go", "build", "-modfile=tools/go.mod", "-o",
		filepath.Join(s.dir, "helm"), "helm.sh/helm/v4/cmd/helm")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building helm: %v\n%s", err, out)
	}
	if err := os.Symlink(filepath.Join(root, "deploy"), filepath.Join(s.dir, "deploy")); err != nil {
		t.Fatal(err)
	}
	s.path = strings.Join([]string{s.dir, filepath.Join(root, "bin"), kubernetes.Dir,
		os.Getenv("PATH")}, ":")
	return s
}

// fitExamples copies the examples, fitted to the cluster: the VM boots the tests' guest, and the
// quota has room for a launcher whose helper containers have 2 CPUs each, and not for two.
func fitExamples(t *testing.T, to string) {
	t.Helper()
	edit := map[string]func(string) string{
		"kubevirt-resize.yaml":    fitVM(t),
		"kubevirt-migration.yaml": func(text string) string { return text },
		"kubevirt-quota.yaml": func(text string) string {
			if !strings.Contains(text, `limits.cpu: "3"`) {
				t.Fatalf("no limit of 3 CPUs in\n%s", text)
			}
			return strings.Replace(text, `limits.cpu: "3"`, `limits.cpu: "6"`, 1)
		},
	}
	if err := os.Mkdir(filepath.Join(to, "examples"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, edit := range edit {
		text, err := os.ReadFile(filepath.Join(top, "examples", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, "examples", name), []byte(edit(string(text))),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// fitVM replaces the disk of a VM by the tests' guest, which needs no disk, and sets its CPU model
// and one vCPU: under emulation a guest with two takes ten minutes to boot.
func fitVM(t *testing.T) func(string) string {
	return func(text string) string {
		vm := &kubevirtv1.VirtualMachine{}
		if err := yaml.UnmarshalStrict([]byte(text), vm); err != nil {
			t.Fatal(err)
		}
		spec, ours := &vm.Spec.Template.Spec, newVMI("", nil).Spec
		spec.Volumes, spec.Domain.Devices.Disks = nil, nil
		spec.Domain.Firmware, spec.Domain.CPU = ours.Domain.Firmware, ours.Domain.CPU
		spec.Domain.Devices.AutoattachGraphicsDevice = new(false)
		fitted, err := yaml.Marshal(vm)
		if err != nil {
			t.Fatal(err)
		}
		return string(fitted)
	}
}

// removeExamples removes what the commands of the page have made.
func (c *cluster) removeExamples(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	in := metav1.ObjectMeta{Namespace: namespace}
	vm, vmi := &kubevirtv1.VirtualMachine{ObjectMeta: in}, newVMI("vm", nil)
	q := &corev1.ResourceQuota{ObjectMeta: in}
	vm.Name, q.Name = "vm", "default"
	for _, o := range []client.Object{vm, q} {
		if err := c.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	}
	if err := c.remove(ctx, vmi); err != nil {
		t.Error(err)
	}
	if err := c.DeleteAllOf(ctx, &kubevirtv1.VirtualMachineInstanceMigration{},
		client.InNamespace(namespace)); err != nil {
		t.Error(err)
	}
}

// run runs commands and returns the output.
func (s *shell) run(t *testing.T, commands string) string {
	t.Helper()
	commands = strings.NewReplacer("REGISTRY", os.Getenv(envRegistry), "TAG", os.Getenv(envTag)).
		Replace(commands)
	cmd := exec.CommandContext(t.Context(), "sh", "-exc", commands)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "PATH="+s.path)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("%v: %s", err, commands)
	}
	return string(out)
}
