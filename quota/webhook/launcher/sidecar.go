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

	// libvirtDir is the directory of libvirt's socket in KubeVirt's launcher container.
	libvirtDir    = "/var/run/libvirt"
	libvirtSocket = libvirtDir + "/virtqemud-sock"
)

// addSidecar adds mooring-shim on request.
func (m *mutation) addSidecar(vm kubevirt.VM) {
	if !m.options.sidecar.Sidecar {
		return
	}
	mounts := m.container().VolumeMounts
	at := slices.IndexFunc(mounts, func(v corev1.VolumeMount) bool {
		return v.MountPath == libvirtDir
	})
	if at < 0 {
		m.warn("mooring-shim is not added: container %q has no mount at %s, the directory of "+
			"libvirt's socket",
			m.name, libvirtDir)
		return
	}
	c := m.shim(vm)
	c.VolumeMounts = []corev1.VolumeMount{mounts[at], {Name: journal, MountPath: journalDir}}
	spec := &m.pod.Spec
	if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == journal }) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{
			Name:         journal,
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
	}
	if !slices.ContainsFunc(spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == shimName
	}) {
		spec.InitContainers = append(spec.InitContainers, c)
	}
	m.pod.Annotations[api.SidecarKey] = shimName
	m.raiseGracePeriods()
}

// shim returns the mooring-shim container without its mounts.
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
	_, vmGrace := m.gracePeriods()
	args := []string{
		"--connect=" + m.libvirtURI(),
		"--journal=" + journalDir,
		"--grace-period=" + vmGrace.String(),
		"--overhead=kubevirt:" + m.Cluster.Version.String(),
		"--overhead-extra=" + api.Bytes(m.unreportedOverhead(vm)).String(),
	}
	if ratio := m.Cluster.Ratio.String(); ratio != "" {
		args = append(args, "--overhead-ratio="+ratio)
	}
	if m.options.sidecar.FollowLimits {
		args = append(args, "--follow-limits")
	}
	return args
}

// unreportedOverhead returns the part of the launcher's overhead that does not follow from the
// domain XML, in whole MiB: exec probes, addedOverhead, passt, and requests equal to limits.
func (m *mutation) unreportedOverhead(vm kubevirt.VM) int64 {
	bare := vm
	bare.LivenessExec, bare.ReadinessExec, bare.Passt = false, false, 0
	bare.Memory.AddedOverhead, bare.Memory.Limit = 0, 0
	_, all, err := kubevirt.Overhead(vm, m.Cluster.Version, m.Cluster.Ratio)
	if err != nil {
		return 0 // lock has already reported it
	}
	_, least, err := kubevirt.Overhead(bare, m.Cluster.Version, m.Cluster.Ratio)
	if err != nil {
		return 0
	}
	return max(0, all-least+mib-1) / mib * mib
}

// libvirtURI returns the URI of the launcher's libvirt. It runs in session mode unless the launcher
// is root.
func (m *mutation) libvirtURI() string {
	mode := "session"
	if user := m.launcherUser(); user != nil && *user == 0 {
		mode = "system"
	}
	return "qemu+unix:///" + mode + "?socket=" + libvirtSocket
}

// launcherUser returns the user of the launcher container; nil: the user of its image.
func (m *mutation) launcherUser() *int64 {
	if s := m.container().SecurityContext; s != nil && s.RunAsUser != nil {
		return s.RunAsUser
	}
	if s := m.pod.Spec.SecurityContext; s != nil {
		return s.RunAsUser
	}
	return nil
}

// shimSecurity runs the shim as the launcher's user without privileges, because libvirt accepts no
// other user.
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

// seconds converts to a duration within the range of grace periods.
func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 1), int64(api.MaxDuration/time.Second))) * time.Second
}
