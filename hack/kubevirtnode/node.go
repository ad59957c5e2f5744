package kubevirtnode

import (
	"context"
	"os"
	"path/filepath"

	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

// NodeName is the name of the node.
const NodeName = "node-1"

// kubeletConf is kubelet's access to the API server. The cluster writes it.
const kubeletConf = "/etc/kubernetes/kubelet.conf"

// startNode boots a node that has kubelet, KubeVirt's images and these further archives of images.
func startNode(ctx context.Context, b *builder, archives []string) (*throwaway.Node, error) {
	kubevirt, err := buildImage(ctx, b)
	if err != nil {
		return nil, err
	}
	defer kubevirt.Close()
	temp, err := os.MkdirTemp("", "mooring-kubevirt-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	guest := filepath.Join(temp, "guest.tar")
	if err := writeGuestImage(ctx, guest); err != nil {
		return nil, err
	}
	files, err := nodeFiles(ctx, b)
	if err != nil {
		return nil, err
	}
	return throwaway.Start(ctx, throwaway.Options{Spec: image.DefaultSpec(), Log: b.log,
		Additions: &image.Additions{Files: files, Archives: append([]string{
			filepath.Join(kubevirt.Dir, imageFile), guest}, archives...)}})
}

// nodeFiles are kubelet, kube-proxy and the network of the pods. Without a default route, pods
// would not reach the API server.
func nodeFiles(ctx context.Context, b *builder) (image.Files, error) {
	programs, err := kube.Build(ctx, b.log)
	if err != nil {
		return nil, err
	}
	defer programs.Close()
	kubelet, err := os.ReadFile(filepath.Join(programs.Dir, "kubelet"))
	if err != nil {
		return nil, err
	}
	files := image.Files{"usr/local/bin/kubelet": {Content: kubelet, Mode: 0o755}}
	for name, to := range map[string]string{
		"kubelet.yaml":       "etc/kubernetes/kubelet.yaml",
		"kubelet.service":    "etc/systemd/system/kubelet.service",
		"kube-proxy.service": "etc/systemd/system/kube-proxy.service",
		"pods.conflist":      "etc/cni/net.d/05-pods.conflist",
	} {
		content, err := embedded.ReadFile("files/" + name)
		if err != nil {
			return nil, err
		}
		files[to] = image.File{Content: content, Mode: 0o644}
	}
	return files, nil
}
