package main

import (
	"fmt"
	"strings"

	nri "github.com/containerd/nri/pkg/api"
)

const (
	gib = int64(1) << 30

	// The memory lock and memory.high of a launcher.
	launcherMemlock    = 5 * gib
	launcherMemoryHigh = "5905580032"

	// namespace has a rule in the policy.
	namespace = "vms"

	// launcherName is KubeVirt's name for the VM's container.
	launcherName = "compute"

	// ulimitsKey is the annotation for ulimitsPlugin. Mooring refuses launchers with
	// ulimit-adjuster's own key.
	ulimitsKey = "ulimits.example.org/container." + launcherName
)

// workload is a kind of container.
type workload struct {
	name      string
	container func(number int) member
}

// workloads returns the kinds of containers for the candidates.
func workloads() []workload {
	return []workload{{"plain container", plain}, {"launcher", launcher}}
}

// member is a container with its pod.
type member struct {
	pod *nri.PodSandbox
	ctr *nri.Container
}

// plain is a container without a VM.
func plain(number int) member {
	pod := newPod(number, "app")
	pod.Labels = map[string]string{"app.kubernetes.io/name": "app",
		"pod-template-hash": "7d4b9c6f5d"}
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "api"}
	return member{pod, newContainer(pod, "app")}
}

// launcher is a VM's container. It requests 5 GiB of locked memory and a cgroup setting, as in the
// README.
func launcher(number int) member {
	pod := newPod(number, "vm")
	pod.Labels = map[string]string{"kubevirt.io": "virt-launcher",
		"kubevirt.io/created-by": pod.Uid}
	pod.Annotations = map[string]string{
		"kubernetes.io/config.source":       "api",
		"kubevirt.io/domain":                pod.Name,
		"devices.memlock.mooring.dev":       "vfio=1",
		"guest-memory.memlock.mooring.dev":  "4Gi",
		"memory.high.cgroup.mooring.dev":    "5632Mi",
		"required-plugins.noderesource.dev": `["mooring"]`,
		ulimitsKey: "[{type: memlock, hard: 5368709120, soft: " +
			"5368709120}]",
		"post.hook.backup.velero.io/container":        launcherName,
		"kubevirt.io/migrationTransportUnix":          "true",
		"kubectl.kubernetes.io/default-container":     launcherName,
		"traffic.sidecar.istio.io/kubevirtInterfaces": "k6t-eth0",
	}
	return member{pod, newContainer(pod, launcherName)}
}

func newPod(number int, kind string) *nri.PodSandbox {
	uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", number)
	return &nri.PodSandbox{
		Id: fmt.Sprintf("%064x", number), Uid: uid, Namespace: namespace,
		Name:           fmt.Sprintf("%s-%d", kind, number),
		RuntimeHandler: "runc",
		Linux: &nri.LinuxPodSandbox{
			CgroupParent: "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" +
				strings.ReplaceAll(uid, "-", "_") + ".slice",
		},
	}
}

// newContainer returns a container with a message of realistic small size. A larger message would
// hide the plugin's own cost.
func newContainer(pod *nri.PodSandbox, name string) *nri.Container {
	return &nri.Container{
		Id: containerID(pod, name), PodSandboxId: pod.Id, Name: name,
		State: nri.ContainerState_CONTAINER_CREATED,
		Labels: map[string]string{"io.kubernetes.container.name": name,
			"io.kubernetes.pod.uid": pod.Uid},
		Args: []string{"/usr/bin/" + name, "--name", pod.Name, "--uid", pod.Uid},
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOSTNAME=" + pod.Name,
			"KUBERNETES_SERVICE_PORT=443"},
		Mounts: []*nri.Mount{bind("/etc/hosts"), bind("/etc/hostname"), bind("/etc/resolv.conf"),
			bind("/dev/shm")},
		Linux: &nri.LinuxContainer{
			CgroupsPath: fmt.Sprintf("kubepods-burstable-pod%s.slice:cri-containerd:%s",
				pod.Uid, pod.Id),
			Resources: &nri.LinuxResources{
				Memory: &nri.LinuxMemory{Limit: nri.Int64(6 * gib)},
				Cpu: &nri.LinuxCPU{Shares: nri.UInt64(uint64(102)),
					Quota: nri.Int64(int64(200000)), Period: nri.UInt64(uint64(100000))},
			},
		},
	}
}

func containerID(pod *nri.PodSandbox, name string) string {
	return fmt.Sprintf("%08x%s", len(name), pod.Id[8:])
}

func bind(path string) *nri.Mount {
	return &nri.Mount{Destination: path, Source: "/var/lib/containerd" + path, Type: "bind",
		Options: []string{"rbind", "rprivate", "rw"}}
}
