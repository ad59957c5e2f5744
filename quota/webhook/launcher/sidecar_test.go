package launcher

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
)

func wantShim(changes ...func(*corev1.Container)) corev1.Container {
	user := int64(107)
	c := corev1.Container{
		Name: "mooring-shim", Image: "registry.example.org/mooring-shim:v1",
		Command: []string{"mooring-shim", "run"},
		Args: []string{
			"--connect=qemu+unix:///session?socket=/var/run/libvirt/virtqemud-sock",
			"--journal=/journal", "--grace-period=30s",
			"--overhead=kubevirt:1.7.0", "--overhead-extra=0",
		},
		RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		Resources:     resources("10m", "64Mi", "100m", "64Mi"),
		VolumeMounts: []corev1.VolumeMount{{Name: "libvirt-runtime",
			MountPath: "/var/run/libvirt"}, {Name: "mooring-journal", MountPath: "/journal"}},
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: &user, RunAsGroup: &user, RunAsNonRoot: new(true),
			AllowPrivilegeEscalation: new(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	for _, do := range changes {
		do(&c)
	}
	return c
}

func TestSidecar(t *testing.T) {
	pod := mutated(t, input(newPod(map[string]string{api.InjectSidecarKey: "true"}), newVMI()))
	want := newPod(written(api.InjectSidecarKey, "true", api.SidecarKey, "mooring-shim",
		api.GracePeriodKey, "45s"))
	want.Spec.InitContainers = append(want.Spec.InitContainers, wantShim())
	want.Spec.Volumes = append(want.Spec.Volumes, corev1.Volume{Name: "mooring-journal",
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	want.Spec.TerminationGracePeriodSeconds = new(int64(90))
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Properties of VM and launcher that the sidecar depends on.
func TestSidecarOf(t *testing.T) {
	type vmi = kubevirtv1.VirtualMachineInstance
	for name, c := range map[string]struct {
		pod  func(*corev1.Pod)
		vmi  func(*vmi)
		want func(*corev1.Container)
	}{
		"follows limits": {
			pod:  func(p *corev1.Pod) { p.Annotations[api.InjectSidecarKey] = "follow-limits" },
			want: func(c *corev1.Container) { c.Args = append(c.Args, "--follow-limits") },
		},
		"grace period": {
			vmi:  func(v *vmi) { v.Spec.TerminationGracePeriodSeconds = new(int64(300)) },
			want: func(c *corev1.Container) { c.Args[2] = "--grace-period=5m0s" },
		},
		"exec probe": {
			vmi: func(v *vmi) {
				v.Spec.LivenessProbe = &kubevirtv1.Probe{
					Handler: kubevirtv1.Handler{Exec: &corev1.ExecAction{}}}
			},
			want: func(c *corev1.Container) { c.Args[4] = "--overhead-extra=110Mi" },
		},
		"class Guaranteed": {
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources = resources("2", "3Gi", "2", "3Gi")
			},
			vmi: func(v *vmi) {
				r := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"),
					corev1.ResourceMemory: resource.MustParse("2Gi")}
				v.Spec.Domain.Resources = kubevirtv1.ResourceRequirements{Requests: r, Limits: r}
			},
			want: func(c *corev1.Container) {
				c.Resources, c.Args[4] = resources("100m", "64Mi", "100m", "64Mi"),
					"--overhead-extra=100Mi"
			},
		},
		"root": {
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
					RunAsUser: new(int64(0)), SELinuxOptions: &corev1.SELinuxOptions{Type: "x"}}
			},
			want: func(c *corev1.Container) {
				c.Args[0] = "--connect=qemu+unix:///system?socket=/var/run/libvirt/virtqemud-sock"
				c.SecurityContext.RunAsUser, c.SecurityContext.RunAsGroup, c.SecurityContext.RunAsNonRoot = new(
					int64(0)),
					nil, nil
				c.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "x"}
			},
		},
		"the pod's user": {
			pod: func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = nil },
			want: func(c *corev1.Container) {
				c.SecurityContext.RunAsGroup, c.SecurityContext.RunAsNonRoot = nil, nil
			},
		},
	} {
		pod, vmi := newPod(map[string]string{api.InjectSidecarKey: "true"}), newVMI()
		if c.pod != nil {
			c.pod(pod)
		}
		if c.vmi != nil {
			c.vmi(vmi)
		}
		got := mutated(t, input(pod, vmi)).Spec.InitContainers
		if diff := cmp.Diff(wantShim(c.want), got[len(got)-1]); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestSidecarRatio(t *testing.T) {
	in := input(newPod(map[string]string{api.InjectSidecarKey: "true"}), newVMI())
	in.Cluster.Ratio, _ = kubevirt.ParseRatio("1.5")
	args := mutated(t, in).Spec.InitContainers[1].Args
	if !slices.Contains(args, "--overhead-ratio=1.5") {
		t.Errorf("got %q", args)
	}
}

// Requests of VM and namespace, and their precedence.
func TestWishes(t *testing.T) {
	yes, no := map[string]string{api.InjectSidecarKey: "true"},
		map[string]string{api.InjectSidecarKey: "false"}
	for name, c := range map[string]struct {
		pod, namespace map[string]string
		want           bool
	}{
		"no request":           {nil, nil, false},
		"the VM":               {yes, nil, true},
		"its namespace":        {nil, yes, true},
		"the VM, against it":   {no, yes, false},
		"the VM, all the same": {yes, no, true},
		"has one":              {map[string]string{api.SidecarKey: "shim"}, yes, false},
	} {
		in := input(newPod(c.pod), newVMI())
		in.Namespace = c.namespace
		if got := len(mutated(t, in).Spec.InitContainers) > 1; got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestWishesThatCannotBe(t *testing.T) {
	for want, change := range map[string]func(*Input){
		"its image is not configured": func(in *Input) { in.Shim.Image = "" },
		"has no mount at /var/run/libvirt": func(in *Input) {
			in.Pod.Spec.Containers[0].VolumeMounts = nil
		},
		`namespace: annotation sidecar.inject.mooring.dev: "maybe": want "true", "false" or "follow-limits"`: func(in *Input) {
			in.Namespace, in.Pod.Annotations = map[string]string{api.InjectSidecarKey: "maybe"}, nil
		},
	} {
		in := input(newPod(map[string]string{api.InjectSidecarKey: "true"}), newVMI())
		change(&in)
		out, err := Mutate(in)
		if err != nil || len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], want) ||
			out.Pod != nil && len(out.Pod.Spec.InitContainers) > 1 {
			t.Errorf("%s: got %v, %q", want, err, out.Warnings)
		}
	}
}

func TestPreStop(t *testing.T) {
	other := &corev1.Lifecycle{
		PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}
	started := &corev1.Lifecycle{
		PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"y"}}}}
	for name, c := range map[string]struct {
		annotations map[string]string
		lifecycle   *corev1.Lifecycle
		want        []string
		warnings    int
	}{
		"shuts down the guest": {nil, nil, []string{"/run/mooring/hook", "prestop", "--", "virsh",
			"--connect",
			"qemu+unix:///session?socket=/var/run/libvirt/virtqemud-sock", "shutdown", "--mode",
			"acpi", "vms_vm"}, 0},
		"beside a postStart": {nil, started, nil, 0},
		"with the sidecar": {map[string]string{api.InjectSidecarKey: "true"}, nil,
			[]string{"/run/mooring/hook", "prestop"}, 0},
		"with its own sidecar": {map[string]string{api.SidecarKey: "shim"}, nil,
			[]string{"/run/mooring/hook", "prestop"}, 0},
		"has one": {nil, other, []string{"x"}, 1},
	} {
		pod := newPod(map[string]string{api.InjectPreStopKey: "true"})
		for key, value := range c.annotations {
			pod.Annotations[key] = value
		}
		pod.Spec.Containers[0].Lifecycle = c.lifecycle.DeepCopy()
		out, err := Mutate(input(pod, newVMI()))
		if err != nil || len(out.Warnings) != c.warnings || out.Pod == nil {
			t.Errorf("%s: %v, %q", name, err, out.Warnings)
			continue
		}
		got := out.Pod.Spec.Containers[0].Lifecycle
		if c.want != nil && !slices.Equal(got.PreStop.Exec.Command, c.want) ||
			c.lifecycle == started && got.PostStart == nil {
			t.Errorf("%s: got %+v", name, got.PreStop.Exec)
		}
	}
}

// The agent waits longer than the guest may take, and kubelet longer than the agent.
func TestGrace(t *testing.T) {
	for name, c := range map[string]struct {
		vm          *int64
		annotation  string
		wantAgent   string
		wantGuest   string
		wantKubelet int64
	}{
		"default":        {nil, "", "45s", "30s", 90},
		"VM's":           {new(int64(180)), "", "3m15s", "3m0s", 240},
		"none":           {new(int64(0)), "", "16s", "1s", 61},
		"the most":       {new(int64(7200)), "", "1h0m0s", "59m55s", 3645},
		"beyond any":     {new(int64(1 << 62)), "", "1h0m0s", "59m55s", 3645},
		"annotated":      {new(int64(30)), "2h", "2h", "30s", 7245},
		"annotated less": {new(int64(30)), "10s", "10s", "5s", 60},
		"hardly any":     {new(int64(30)), "1s", "1s", "1s", 60},
	} {
		annotations := map[string]string{api.InjectSidecarKey: "true"}
		if c.annotation != "" {
			annotations[api.GracePeriodKey] = c.annotation
		}
		vmi := newVMI()
		vmi.Spec.TerminationGracePeriodSeconds = c.vm
		pod := mutated(t, input(newPod(annotations), vmi))
		guest, kubelet := pod.Spec.InitContainers[1].Args[2],
			*pod.Spec.TerminationGracePeriodSeconds
		if pod.Annotations[api.GracePeriodKey] != c.wantAgent ||
			guest != "--grace-period="+c.wantGuest || kubelet != c.wantKubelet {
			t.Errorf("%s: agent %s, guest %s, kubelet %d", name,
				pod.Annotations[api.GracePeriodKey], guest, kubelet)
		}
	}
}
