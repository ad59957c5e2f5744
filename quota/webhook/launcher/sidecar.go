package launcher

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/quota/sidecar"
)

const (
	shimName   = "mooring-shim"
	journal    = "mooring-journal" // volume
	journalDir = "/journal"

	// libvirtDir is where KubeVirt's launcher container has libvirt's socket.
	libvirtDir    = "/var/run/libvirt"
	libvirtSocket = libvirtDir + "/virtqemud-sock"
)

// addSidecar adds mooring-shim where it is asked for.
func (m *mutation) addSidecar(vm kubevirt.VM) {
	if !m.wishes.sidecar.Sidecar {
		return
	}
	mounts := m.container().VolumeMounts
	at := slices.IndexFunc(mounts, func(v corev1.VolumeMount) bool { return v.MountPath == libvirtDir })
	if at < 0 {
		m.warn("mooring-shim is not added: container %q has nothing mounted at %s, where libvirt's socket is", m.name, libvirtDir)
		return
	}
	c := m.shim(vm)
	c.VolumeMounts = []corev1.VolumeMount{mounts[at], {Name: journal, MountPath: journalDir}}
	spec := &m.pod.Spec
	if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == journal }) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{
			Name: journal, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
	}
	if !slices.ContainsFunc(spec.InitContainers, func(c corev1.Container) bool { return c.Name == shimName }) {
		spec.InitContainers = append(spec.InitContainers, c)
	}
	m.pod.Annotations[api.SidecarKey] = shimName
	m.raiseGrace()
}

// shim is the container of mooring-shim, but for what is mounted in it.
func (m *mutation) shim(vm kubevirt.VM) corev1.Container {
	return corev1.Container{
		Name:                     shimName,
		Image:                    m.Shim.Image,
		Command:                  []string{"mooring-shim", "run"},
		Args:                     m.shimArgs(vm),
		RestartPolicy:            new(corev1.ContainerRestartPolicyAlways),
		Resources:                sidecar.Resources(sidecar.Guaranteed(m.container().Resources)),
		SecurityContext:          m.shimSecurity(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

func (m *mutation) shimArgs(vm kubevirt.VM) []string {
	_, vmGrace := m.graces()
	args := []string{
		"--connect=" + m.libvirtURI(),
		"--journal=" + journalDir,
		"--grace-period=" + vmGrace.String(),
		"--overhead=kubevirt:" + m.Cluster.Version.String(),
		"--overhead-extra=" + api.Bytes(m.untold(vm)).String(),
	}
	if ratio := m.Cluster.Ratio.String(); ratio != "" {
		args = append(args, "--overhead-ratio="+ratio)
	}
	if m.wishes.sidecar.FollowLimits {
		args = append(args, "--follow-limits")
	}
	return args
}

// untold is what of the launcher's overhead a domain does not tell, in whole MiB: exec
// probes, addedOverhead, passt, and that requests are limits.
func (m *mutation) untold(vm kubevirt.VM) int64 {
	told := vm
	told.LivenessExec, told.ReadinessExec, told.Passt = false, false, 0
	told.Memory.AddedOverhead, told.Memory.Limit = 0, 0
	_, all, err := kubevirt.Overhead(vm, m.Cluster.Version, m.Cluster.Ratio)
	if err != nil {
		return 0 // lock has told
	}
	_, least, err := kubevirt.Overhead(told, m.Cluster.Version, m.Cluster.Ratio)
	if err != nil {
		return 0
	}
	return max(0, all-least+mib-1) / mib * mib
}

// libvirtURI is that of the libvirt in the launcher, which runs in a session of its own
// unless the launcher is root.
func (m *mutation) libvirtURI() string {
	mode := "session"
	if user := m.launcherUser(); user != nil && *user == 0 {
		mode = "system"
	}
	return "qemu+unix:///" + mode + "?socket=" + libvirtSocket
}

// launcherUser is the user of the launcher container; nil: its image says.
func (m *mutation) launcherUser() *int64 {
	if s := m.container().SecurityContext; s != nil && s.RunAsUser != nil {
		return s.RunAsUser
	}
	if s := m.pod.Spec.SecurityContext; s != nil {
		return s.RunAsUser
	}
	return nil
}

// shimSecurity is that of the launcher's user, without any privilege: libvirt lets nobody
// else in.
func (m *mutation) shimSecurity() *corev1.SecurityContext {
	s := &corev1.SecurityContext{
		RunAsUser:                m.launcherUser(),
		AllowPrivilegeEscalation: new(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if launcher := m.container().SecurityContext; launcher != nil {
		s.RunAsGroup, s.RunAsNonRoot = launcher.RunAsGroup, launcher.RunAsNonRoot
		s.SELinuxOptions = launcher.SELinuxOptions.DeepCopy()
	}
	return s
}

// seconds is a number of seconds that fits a grace period.
func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 1), int64(api.MaxDuration/time.Second))) * time.Second
}
