package nodeimage

import (
	"context"
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mooring-vm/mooring/hack/kindcluster/tools"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

//go:embed files
var embedded embed.FS

// filesOf returns all files of the image except packages and container images.
func filesOf(ctx context.Context, p parts, version string) (image.Files, error) {
	spec, err := baseSpec(ctx, p)
	if err != nil {
		return nil, err
	}
	set := image.Files{
		"kind/version":                     {Content: []byte(version), Mode: 0o644},
		"etc/machine-id":                   {Mode: 0o644},
		"etc/hostname":                     {Absent: true},
		"etc/resolv.conf":                  {Absent: true},
		"usr/sbin/init":                    {Link: "/usr/lib/systemd/systemd"},
		"etc/containerd/cri-base.json":     {Content: spec, Mode: 0o644},
		"etc/kubernetes/manifests/.keep":   {Mode: 0o644},
		"etc/systemd/journald.conf.d/kind": {Content: []byte("ReadKMsg=no\n"), Mode: 0o644},

		"kind/manifests/default-storage.yaml": {Content: []byte(noStorage), Mode: 0o644},
	}
	// kind's own files, with the modes of its Dockerfile
	if err := addTree(set, os.DirFS(tools.Files(p.tools))); err != nil {
		return nil, err
	}
	if err := addTree(set, mustSub(embedded, "files")); err != nil {
		return nil, err
	}
	addUnits(set)
	return set, addPrograms(set, p)
}

// noStorage replaces kind's storage class: its provisioner is not in this image.
const noStorage = `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: standard
  annotations:
    storageclass.kubernetes.io/is-default-class: "true"
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
`

func addTree(set image.Files, tree fs.FS) error {
	return fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, path)
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(path, "kind/bin/") || strings.HasPrefix(path, "usr/local/bin/") {
			mode = 0o755
		}
		set[path] = image.File{Content: content, Mode: mode}
		return err
	})
}

func mustSub(tree fs.FS, dir string) fs.FS {
	sub, err := fs.Sub(tree, dir)
	if err != nil {
		panic(err) // the name of a directory of this package
	}
	return sub
}

const units = "etc/systemd/system/"

func addUnits(set image.Files) {
	for _, unit := range []string{"kubelet", "containerd", "undo-mount-hacks"} {
		set[units+"multi-user.target.wants/"+unit+".service"] = image.File{
			Link: "/" + units + unit + ".service"}
	}
	// It would change the kernel of the machine.
	set[units+"systemd-binfmt.service"] = image.File{Link: "/dev/null"}
	set[units+"containerd-fuse-overlayfs.service"] = image.File{Absent: true}
}

// removeUnits removes the units that kind's Dockerfile removes.
func removeUnits(tree string) error {
	for _, pattern := range []string{
		"usr/lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
		"usr/lib/systemd/system/multi-user.target.wants/*",
		"etc/systemd/system/*.wants/*",
		"usr/lib/systemd/system/local-fs.target.wants/*",
		"usr/lib/systemd/system/sockets.target.wants/*udev*",
		"usr/lib/systemd/system/sockets.target.wants/*initctl*",
		"usr/lib/systemd/system/basic.target.wants/*",
	} {
		found, err := filepath.Glob(filepath.Join(tree, pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// addPrograms adds containerd, Kubernetes and the network plugins.
func addPrograms(set image.Files, p parts) error {
	for dir, programs := range map[string]map[string]string{
		p.containerd.Dir: {"containerd": "usr/local/bin", "ctr": "usr/local/bin",
			"containerd-shim-runc-v2": "usr/local/bin"},
		p.kube.Dir: {"kube": "usr/bin"},
		p.tools.Dir: {"ptp": plugins, "loopback": plugins, "host-local": plugins,
			"portmap": plugins},
	} {
		for program, to := range programs {
			content, err := os.ReadFile(filepath.Join(dir, program))
			if err != nil {
				return err
			}
			set[filepath.Join(to, program)] = image.File{Content: content, Mode: 0o755}
		}
	}
	for _, name := range []string{"kubelet", "kubeadm", "kubectl"} {
		set["usr/bin/"+name] = image.File{Link: "kube"}
	}
	return nil
}

const plugins = "opt/cni/bin"
