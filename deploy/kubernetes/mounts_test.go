package kubernetes

import (
	"io"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/agent"
	"github.com/mooring-vm/mooring/internal/buildinfo"
)

// TestMountsPropagate wants later mounts of the node to appear in the containers: libvirt's folder,
// and for the fence the agent's tmpfs.
func TestMountsPropagate(t *testing.T) {
	for name, container := range map[string]corev1.Container{
		"libvirt": podSpec(t).Containers[0], "bpf": podSpec(t).Containers[0],
		"root":    podSpec(t).Containers[0],
		"mooring": fenceSpec(t).Containers[0],
	} {
		at := slices.IndexFunc(container.VolumeMounts,
			func(m corev1.VolumeMount) bool { return m.Name == name })
		mount := container.VolumeMounts[at]
		if mount.MountPropagation == nil ||
			*mount.MountPropagation != corev1.MountPropagationHostToContainer {
			t.Errorf("%s has %s with propagation %v", container.Name, mount.MountPath,
				mount.MountPropagation)
		}
	}
}

// TestDoctorSeesTheNode expects the node's root file system, read-only, where the doctor looks for
// it.
func TestDoctorSeesTheNode(t *testing.T) {
	spec := podSpec(t)
	agent := spec.Containers[0]
	env := slices.IndexFunc(agent.Env,
		func(v corev1.EnvVar) bool { return v.Name == "MOORING_HOST" })
	if env < 0 {
		t.Fatal("the agent's container has no MOORING_HOST")
	}
	mount := slices.IndexFunc(agent.VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.MountPath == agent.Env[env].Value
	})
	if mount < 0 || !agent.VolumeMounts[mount].ReadOnly {
		t.Fatalf("no read-only mount at %s", agent.Env[env].Value)
	}
	volume := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool {
		return v.Name == agent.VolumeMounts[mount].Name
	})
	if path := spec.Volumes[volume].HostPath.Path; path != "/" || !spec.HostPID {
		t.Errorf("mounts %s of the node, hostPID %v", path, spec.HostPID)
	}
}

// TestHook compares the agent's --hook with the path on the node to which the init container copies
// the program.
func TestHook(t *testing.T) {
	spec := podSpec(t)
	if err := agent.Command(buildinfo.Info{}, io.Discard).ParseFlags(
		spec.Containers[0].Args); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == "hook"
	})
	if at < 0 {
		t.Fatal("no init container installs the hook")
	}
	install := spec.InitContainers[at]
	if !slices.Contains(spec.Containers[0].Args, "--hook="+install.Args[len(install.Args)-1]) {
		t.Errorf("the init container runs %v, the agent %v", install.Args, spec.Containers[0].Args)
	}
	if node := install.VolumeMounts[1]; node.Name != "root" || node.ReadOnly ||
		!slices.Contains(install.Args, "--node="+node.MountPath) {
		t.Errorf("the init container runs %v, with the node at %s", install.Args, node.MountPath)
	}
	if *install.SecurityContext.Privileged || len(install.SecurityContext.Capabilities.Add) > 0 {
		t.Error("the init container of the hook has more rights than it needs")
	}
	volume := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == "hook" })
	for _, c := range []corev1.Container{install, spec.Containers[0]} {
		mount := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == "hook"
		})
		if at, path := c.VolumeMounts[mount].MountPath,
			spec.Volumes[volume].HostPath.Path; at != path {
			t.Errorf("container %s has the node's %s at %s", c.Name, path, at)
		}
	}
}

func TestVolumesExist(t *testing.T) {
	checkVolumes(t, podSpec(t))
	checkVolumes(t, fenceSpec(t))
}

func checkVolumes(t *testing.T, spec corev1.PodSpec) {
	t.Helper()
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, mount := range container.VolumeMounts {
			if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
				return v.Name == mount.Name
			}) {
				t.Errorf("container %s mounts volume %q, which does not exist",
					container.Name, mount.Name)
			}
		}
	}
	for _, volume := range spec.Volumes {
		if volume.ConfigMap != nil && volume.ConfigMap.Name != the[*corev1.ConfigMap](t,
			"mooring-agent").Name {
			t.Errorf("volume %s is of ConfigMap %q", volume.Name, volume.ConfigMap.Name)
		}
	}
}
