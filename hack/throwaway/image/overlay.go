package image

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// imageArchive is the container image. The node imports it at its start.
const imageArchive = "opt/image.tar"

// overlay returns all files of the node except its packages.
func overlay(spec Spec, p parts) (Files, error) {
	set := Files{
		channelProgram:   {Content: p.agent, Mode: 0o755},
		"etc/hostname":   {Content: []byte("node1\n"), Mode: 0o644},
		"etc/hosts":      {Content: []byte("127.0.0.1 localhost node1\n"), Mode: 0o644},
		"etc/machine-id": {Mode: 0o644},
		"etc/fstab":      {Mode: 0o644},
	}
	if err := addEmbedded(set, "files"); err != nil {
		return nil, err
	}
	if err := addRuntime(set, spec, p); err != nil {
		return nil, err
	}
	if err := addImage(set, filepath.Join(p.rootfs.Dir, treeDir)); err != nil {
		return nil, err
	}
	addUnits(set)
	return set, nil
}

func addEmbedded(set Files, below string) error {
	return fs.WalkDir(embedded, below, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := embedded.ReadFile(path)
		set[strings.TrimPrefix(path, below+"/")] = File{Content: content, Mode: 0o644}
		return err
	})
}

func addRuntime(set Files, spec Spec, p parts) error {
	if !spec.isCRIO() {
		return addContainerd(set, spec, p)
	}
	if err := addEmbedded(set, "cri-o"); err != nil {
		return err
	}
	return addPrograms(set, p.containerd.Dir, "crio", "pinns")
}

func addContainerd(set Files, spec Spec, p parts) error {
	config, err := embedded.ReadFile("containerd-config/" + configVersion(spec) + ".toml")
	if err != nil {
		return err
	}
	set["etc/containerd/config.toml"] = File{Content: config, Mode: 0o644}
	if p.containerd == nil {
		delete(set, "etc/systemd/system/containerd.service") // the package brings a unit
		return nil
	}
	return addPrograms(set, p.containerd.Dir, "containerd", "containerd-shim-runc-v2", "ctr")
}

func addPrograms(set Files, dir string, names ...string) error {
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		set["usr/local/bin/"+name] = File{Content: content, Mode: 0o755}
	}
	return nil
}

// configVersion is the version of containerd's configuration file.
func configVersion(spec Spec) string {
	old := spec.Suite == "bookworm" || spec.Suite == "trixie"
	if spec.Containerd == DistributionContainerd && old {
		return "v2"
	}
	return "v3"
}

// addUnits enables the node's units. To boot faster, it masks units that a node of a few minutes
// does not need.
func addUnits(set Files) {
	addChannelLinks(set)
	set[units+"multi-user.target.wants/containerd.service"] = File{
		Link: unitPath(set, "containerd.service")}
	set[units+"multi-user.target.wants/node-image.service"] = File{
		Link: "/etc/systemd/system/node-image.service"}
	for _, unit := range []string{
		"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer",
		"logrotate.timer",
		"e2scrub_all.timer", "e2scrub_reap.service", "getty@tty1.service",
		"serial-getty@ttyS0.service",
		"ldconfig.service", "libvirt-guests.service", "systemd-firstboot.service",
		"systemd-pstore.service",
		"systemd-hwdb-update.service", "systemd-update-utmp.service",
		"systemd-journal-flush.service",
		"systemd-journal-catalog-update.service", "systemd-update-done.service",
		"systemd-sysusers.service", "systemd-random-seed.service",
		"systemd-udev-load-credentials.service", "modprobe@configfs.service",
		"modprobe@drm.service", "modprobe@fuse.service",
	} {
		set[units+unit] = File{Link: "/dev/null"}
	}
	// their sockets start them
	for _, unit := range []string{"libvirtd.service", "virtlogd.service"} {
		set[units+"multi-user.target.wants/"+unit] = File{Absent: true}
	}
}

const (
	units          = "etc/systemd/system/"
	channelProgram = "usr/local/sbin/node-agent"
)

func addChannelLinks(set Files) {
	for _, unit := range []string{"node-network.service", "node-channel.service"} {
		set[units+"sysinit.target.wants/"+unit] = File{Link: "/" + units + unit}
	}
}

// ChannelFiles are the command channel and the network of a node with other packages than this
// package's.
func (b *Builder) ChannelFiles(ctx context.Context) (Files, error) {
	agent, err := b.agent(ctx)
	if err != nil {
		return nil, err
	}
	set := Files{channelProgram: {Content: agent, Mode: 0o755}}
	for _, unit := range []string{"node-network.service", "node-channel.service"} {
		content, err := embedded.ReadFile("files/" + units + unit)
		if err != nil {
			return nil, err
		}
		set[units+unit] = File{Content: content, Mode: 0o644}
	}
	addChannelLinks(set)
	return set, nil
}

func unitPath(set Files, unit string) string {
	if _, ours := set["etc/systemd/system/"+unit]; ours {
		return "/etc/systemd/system/" + unit
	}
	return "/lib/systemd/system/" + unit
}
