package suite

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

// A real kubelet runs the pod of examples/resize.yaml, and the pod works as documented. The
// test changes only the parts that this node cannot have: images, a network, and 4 GiB.
func TestDocumentedPod(t *testing.T) {
	f := setUpVMs(t)
	f.pushShim(t)
	c := f.joinCluster(t)
	c.makeNamespace(t)
	pod := documentedPod(t)
	c.adaptToNode(t, pod)
	pod.Annotations[api.ResizeMemoryKey] = "192Mi"
	v := c.runPod(t, pod, cri.Pod{Namespace: pod.Namespace, Name: pod.Name},
		pod.Annotations[api.LauncherKey])
	c.startDocumented(t, v)

	c.awaitSize(t, v, podapi.Actual{VCPUs: 2, Memory: 192 << 20})
	out, err := c.resizeByAPI(t, v, "--vcpus=3")
	if err != nil || !strings.Contains(out, "3 vCPUs") {
		t.Errorf("mooring resize printed %q, %v", out, err)
	}
	if got := c.pod(t, v.pod).Annotations[api.VCPUsKey]; got != "3" {
		t.Errorf("the pod's annotation has %q vCPUs", got)
	}
	if got := c.runInDocumented(t, v,
		"virsh -c qemu:///session vcpucount --live "+v.domain()); got != "3" {
		t.Errorf("libvirt has %s vCPUs, want 3", got)
	}
	// The container limits the bandwidth. An impossible bandwidth is refused with a remedy.
	if out, err := c.resizeByAPI(t, v, "--cpu-quota=150%"); err == nil ||
		!strings.Contains(out+err.Error(), "CPU limit to 1500m instead") {
		t.Errorf("mooring resize --cpu-quota printed %q, %v", out, err)
	}
	if out, err := c.resizeByAPI(t, v, "--cpu-quota=none"); err != nil {
		t.Errorf("mooring resize --cpu-quota=none printed %q, %v", out, err)
	}

	c.requestDeletion(t, v)
	c.awaitGone(t, v)
	c.awaitEvent(t, v.pod, agentapi.ReasonStopConfirmed)
	c.neverReported(t, v.pod, agentapi.ReasonVMTerminated)
}

// resizeByAPI requests another size as a user of the cluster does, and waits for the result.
func (c cluster) resizeByAPI(t *testing.T, v *vm, flag string) (out string, err error) {
	t.Helper()
	out, err = c.agent.CLI(t.Context(), "resize", "-n", v.pod.Namespace, v.pod.Name, flag, "--wait",
		"--kubeconfig="+kubeletDir+"/kubelet.conf")
	t.Logf("%s: %v\n%s", flag, err, out)
	return out, err
}

// documentedPod reads the example as strictly as the API server.
func documentedPod(t *testing.T) *corev1.Pod {
	t.Helper()
	text, err := os.ReadFile("../../examples/resize.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(text, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// adaptToNode replaces the images and the cluster network of a pod.
func (c cluster) adaptToNode(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	shim, launcher := &pod.Spec.InitContainers[0], &pod.Spec.Containers[0]
	user := *shim.SecurityContext.RunAsUser
	const passwd, group = "/opt/suite/passwd", "/opt/suite/group"
	c.write(t, passwd, fmt.Sprintf("qemu:x:%[1]d:%[1]d::/tmp:/bin/sh\n", user))
	c.write(t, group, fmt.Sprintf("qemu:x:%d:\n", user))

	libraries := map[string]string{"/usr": "/usr", "/lib": "/usr/lib", "/lib64": "/usr/lib64"}
	mountAsImage(pod, shim, libraries, map[string]string{"/bin/mooring-shim": shimBinary})
	mountAsImage(pod, launcher, libraries, map[string]string{"/etc/passwd": passwd,
		"/etc/group": group})
	launcher.Command = []string{"sh", "-c", reaperScript}
	launcher.SecurityContext = &corev1.SecurityContext{RunAsUser: &user, RunAsGroup: &user}
	launcher.Resources.Requests = limitsOf("100m", "64Mi")
	pod.Spec.NodeName, pod.Spec.HostNetwork, pod.Spec.AutomountServiceAccountToken = nodeName, true,
		ptr.To(false)
}

// mountAsImage mounts files of the node into a container, in the place of an image's files.
func mountAsImage(pod *corev1.Pod, c *corev1.Container, files ...map[string]string) {
	c.Image, c.ImagePullPolicy = "localhost/busybox:1", corev1.PullNever
	for _, paths := range files {
		for _, at := range slices.Sorted(maps.Keys(paths)) {
			name := fmt.Sprintf("image-%d", len(pod.Spec.Volumes))
			source := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: paths[at]}}
			pod.Spec.Volumes = append(pod.Spec.Volumes,
				corev1.Volume{Name: name, VolumeSource: source})
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: at,
				ReadOnly: true})
		}
	}
}

// runInDocumented runs a line of shell in the environment of the launcher's libvirt.
func (c cluster) runInDocumented(t *testing.T, v *vm, line string, args ...string) string {
	t.Helper()
	const settings = "export HOME=/tmp XDG_RUNTIME_DIR=/run PATH=/usr/sbin:/usr/bin:/bin; "
	out, err := v.launcher.Exec(t.Context(), append([]string{"sh", "-c", settings + line, "sh"},
		args...)...)
	if err != nil {
		t.Fatal(err, out)
	}
	return strings.TrimSpace(out)
}

// startDocumented starts a VM with headroom, as the launcher does.
func (c cluster) startDocumented(t *testing.T, v *vm) {
	t.Helper()
	const plain = "/opt/suite/documented.xml"
	c.write(t, plain, domainXML(v.domain(), `<memory unit='MiB'>64</memory>`, ""))
	xml := c.cli(t, "domain", "prepare", "--cpu-capacity=4", "--memory-capacity=1024",
		"--memory-device=dimm", plain)
	c.runInDocumented(t, v,
		`echo "$1" >/tmp/vm.xml; virsh -q -c qemu:///session create /tmp/vm.xml`, xml)
	if err := c.findVMProcess(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	c.awaitVM(t, v, agentapi.VMRunning)
}
