package suite

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/integration/node"
)

// Kubernetes resizes a pod in place, and its VM follows: it grows, and gives back used memory.
// The memory use never exceeds the limits. Kubelet, API server and guest are real.
func TestInPlaceResize(t *testing.T) {
	requireLinuxGuest(t)
	f := setUpVMs(t)
	f.pushGuest(t)
	f.pushShim(t)
	c := f.joinCluster(t)
	v := c.runFollowing(t, "1", "512Mi")
	samples := c.sample(t, v)

	c.resizePod(t, v, "2", "768Mi")
	c.awaitActual(t, v, "2", "768Mi")
	c.awaitSize(t, v, podapi.Actual{VCPUs: 2, Memory: 512 << 20})
	c.awaitConsole(t, v, "cpus=0-1 ")
	c.awaitUse(t, v, 512<<20)

	c.resizePod(t, v, "2", "512Mi") // kubelet waits until the VM has given its memory back
	c.awaitActual(t, v, "2", "512Mi")
	c.awaitSize(t, v, podapi.Actual{VCPUs: 2, Memory: 256 << 20})
	samples.check(t, 512<<20, 768<<20, 512<<20)

	c.deletePod(t, v)
	f.neverReported(t, v.pod, agentapi.ReasonVMTerminated)
}

// runFollowing runs a launcher with a sidecar that follows the pod's limits, and a VM of 256 MiB.
func (c cluster) runFollowing(t *testing.T, cpu, memory string) *vm {
	t.Helper()
	dir := "/opt/suite/following"
	c.output(t, "sh", "-c",
		`rm -rf "$1"; install -d -m 0755 /opt/suite && install -d -m 0700 -o "$2" "$1" "$1/run" `+
			`"$1/journal"`,
		"sh", dir, itoa(libvirtUser))
	compute, shim := withLibvirt(), shimContainer(dir)
	compute.Name = "compute"
	compute.Shared = map[string]string{"/tmp/run": dir + "/run"}
	compute.Mounts[guestDir] = guestDir
	shim.Args = append(shim.Args, "--follow-limits", "--overhead=256Mi", "--grace-period=90s",
		"--log-level=debug")
	shim.Args = append(shim.Args, slowGuest()...)
	launcherSpec, volumes := kubernetesContainer(compute)
	shimSpec, more := kubernetesContainer(shim)
	p := launcher(map[string]string{api.SidecarKey: sidecarName, api.GracePeriodKey: "2m"})
	p.Namespace = namespace
	c.makeNamespace(t)
	v := c.createPod(t, p, limited(launcherSpec, cpu, memory), limited(shimSpec, "1", "128Mi"),
		append(volumes, more...))
	v.console = dir + "/run/console"
	var probeErr error
	// slow, with the pod's CPU limit
	within(t, 3*waitTimeout, "libvirt to probe its emulators", func() bool {
		_, probeErr = v.launcher.Exec(t.Context(), "sh", "-c",
			inPod+"virsh -q -c qemu:///session domcapabilities >/dev/null")
		return probeErr == nil
	}, func() string { return fmt.Sprint(probeErr) })
	c.write(t, dir+"/plain.xml", followingXML(v))
	if err := c.createInPod(t.Context(), v, c.cli(t, "domain", "prepare", "--memory-capacity=1024",
		"--cpu-capacity=4", dir+"/plain.xml")); err != nil {
		t.Fatal(err)
	}
	c.awaitVM(t, v, agentapi.VMRunning)
	c.awaitConsole(t, v, "cpus=0 ")
	return v
}

// followingXML is linuxXML for a libvirt in the pod. Its QEMU allocates the guest's memory at
// once, also plugged memory, and needs little memory of its own.
func followingXML(v *vm) string {
	xml := strings.Replace(fmt.Sprintf(linuxXML, v.domain()), "path='"+v.domain()+"'",
		"path='/tmp/run/console'", 1)
	xml = strings.Replace(xml, "<memory unit='MiB'>160<", "<memory unit='MiB'>256<", 1)
	xml = strings.Replace(xml, "<smm state='off'/>",
		"<smm state='off'/><tcg><tb-cache unit='MiB'>96</tb-cache></tcg>", 1)
	return strings.Replace(xml, "<os>",
		"<memoryBacking><allocation mode='immediate'/></memoryBacking><os>", 1)
}

func (c cluster) makeNamespace(t *testing.T) {
	t.Helper()
	_, err := c.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := c.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitSize waits until the pod reports a finished resize with this size.
func (c cluster) awaitSize(t *testing.T, v *vm, want podapi.Actual) {
	t.Helper()
	var last podapi.Report
	within(t, 12*waitTimeout, "the VM to have its size", func() bool {
		if _, err := c.Output(t.Context(), "test", "-e", podDir(v.pod)+"/resize.json"); err != nil {
			return false
		}
		last = c.lastReport(t, v)
		return last.State == podapi.StateDone && last.Actual != nil &&
			last.Actual.VCPUs == want.VCPUs &&
			last.Actual.Memory == want.Memory
	}, func() string { return fmt.Sprintf("%+v", last) })
}

// awaitUse waits until the launcher's container uses more memory than this.
func (c cluster) awaitUse(t *testing.T, v *vm, bytes int64) {
	t.Helper()
	cgroup, err := c.cgroupOf(t.Context(), v.launcherProcess)
	if err != nil {
		t.Fatal(err)
	}
	use := func() string { return c.output(t, "cat", "/sys/fs/cgroup"+cgroup+"/memory.current") }
	within(t, 2*waitTimeout, fmt.Sprintf("the container to use more than %d bytes", bytes),
		func() bool {
			n, err := strconv.ParseInt(use(), 10, 64)
			return err == nil && n > bytes
		}, use)
}

// deletePod deletes a pod as a user does. It waits until the guest has shut down, and until VM
// and pod are gone.
func (c cluster) deletePod(t *testing.T, v *vm) {
	t.Helper()
	c.requestDeletion(t, v)
	c.awaitConsole(t, v, "power off")
	c.awaitGone(t, v)
}

func (c cluster) requestDeletion(t *testing.T, v *vm) {
	t.Helper()
	if err := c.CoreV1().Pods(v.pod.Namespace).Delete(t.Context(), v.pod.Name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitGone waits until a deleted pod and its VM are gone.
func (c cluster) awaitGone(t *testing.T, v *vm) {
	t.Helper()
	c.awaitEnd(t, v.vmProcess)
	within(t, 2*waitTimeout, "the pod to be gone", func() bool {
		_, err := c.CoreV1().Pods(v.pod.Namespace).Get(t.Context(), v.pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, func() string { return c.describePod(t, v.pod) })
}

// samples are lines of a sampling program on the node.
type samples struct {
	text *bytes.Buffer
	stop func()
}

// limitsOfPod prints, after each change: the limits of pod and container, the container's use
// of memory, and the number of OOM kills.
const limitsOfPod = `while sleep 0.1; do
	pod=$(cat "$1/../memory.max") own=$(cat "$1/memory.max") now=$(cat "$1/memory.current") kills=$(sed -n 's/^oom_kill //p' "$1/memory.events")
	[ "$pod $own $kills" = "$last" ] || echo "$pod $own $now $kills"
	last="$pod $own $kills"
done`

// sample samples the cgroups of a launcher.
func (c cluster) sample(t *testing.T, v *vm) samples {
	t.Helper()
	cgroup, err := c.cgroupOf(t.Context(), v.launcherProcess)
	if err != nil {
		t.Fatal(err)
	}
	return c.startSampling(t, "sh", "-c", limitsOfPod, "sh", "/sys/fs/cgroup"+cgroup)
}

// startSampling runs a sampling program on the node.
func (f fixture) startSampling(t *testing.T, args ...string) samples {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := samples{text: &bytes.Buffer{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = f.Run(ctx, node.Command{Args: args, Stdout: s.text})
	}()
	s.stop = func() { cancel(); <-ended }
	t.Cleanup(s.stop)
	return s
}

// check ends the sampling. It checks that the container had these limits in this order, that
// the pod's limit was never lower, and that the kernel killed no process.
func (s samples) check(t *testing.T, limits ...int64) {
	t.Helper()
	s.stop()
	var own []int64
	for line := range strings.Lines(s.text.String()) {
		var pod, limit, now, kills int64
		if _, err := fmt.Sscan(line, &pod, &limit, &now, &kills); err != nil {
			t.Fatalf("sample %q: %v", line, err)
		}
		if kills != 0 || pod < limit || now > limit {
			t.Errorf("limit of the pod %d, of the container %d, use %d, %d killed", pod,
				limit, now, kills)
		}
		if len(own) == 0 || own[len(own)-1] != limit {
			own = append(own, limit)
		}
	}
	if fmt.Sprint(own) != fmt.Sprint(limits) {
		t.Errorf("memory.max of the container was %v, want %v", own, limits)
	}
	t.Logf("pod's limit, container's, in use, killed:\n%s", s.text)
}
