package nodeimage

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mooring-vm/mooring/hack/containerimage"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

// pauseSource is the program of the pause image.
//
//go:embed pause/pause.c
var pauseSource string

// sandboxImage is the pause image of kind's containerd. kubeadm has another version of it.
const sandboxImage = "registry.k8s.io/pause:3.10"

// writeImages writes an archive with the images that kubeadm starts, except CoreDNS. kubeadm names
// them.
func writeImages(ctx context.Context, p parts, tree, out string) error {
	references, err := kubeadmImages(ctx, p)
	if err != nil {
		return err
	}
	layers, err := newLayers(ctx, p, tree, filepath.Dir(out))
	if err != nil {
		return err
	}
	images := map[string]v1.Image{}
	for _, reference := range append(references, sandboxImage) {
		img, ok, err := layers.image(path.Base(strings.Split(reference, ":")[0]))
		if err != nil {
			return fmt.Errorf("%s: %w", reference, err)
		}
		if !ok {
			continue
		}
		images[reference] = img
	}
	return containerimage.Write(out, images)
}

func kubeadmImages(ctx context.Context, p parts) ([]string, error) {
	version, err := os.ReadFile(filepath.Join(p.kube.Dir, "version"))
	if err != nil {
		return nil, err
	}
	out, err := output(child.Isolated(ctx, filepath.Join(p.kube.Dir, "kubeadm"), "config",
		"images", "list", "--kubernetes-version="+string(version)))
	return strings.Fields(out), err
}

// layers are the contents of the images. The programs of Kubernetes share one.
type layers struct{ kube, nft, pause v1.Layer }

func newLayers(ctx context.Context, p parts, tree, temp string) (l layers, err error) {
	files := image.Files{}
	binary, err := os.ReadFile(filepath.Join(p.kube.Dir, "kube"))
	if err != nil {
		return l, err
	}
	files["usr/local/bin/kube"] = image.File{Content: binary, Mode: 0o755}
	for _, program := range []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy",
	} {
		files["usr/local/bin/"+program] = image.File{Link: "kube"}
	}
	files["etc/passwd"] = image.File{Content: []byte("root:x:0:0:root:/:/bin/sh\n"), Mode: 0o644}
	if l.kube, err = containerimage.Layer(files); err != nil {
		return l, err
	}
	if files, err = nftFiles(ctx, tree); err != nil {
		return l, err
	}
	if l.nft, err = containerimage.Layer(files); err != nil {
		return l, err
	}
	pause, err := compilePause(ctx, temp)
	if err != nil {
		return l, err
	}
	l.pause, err = containerimage.Layer(image.Files{"pause": {Content: pause, Mode: 0o755}})
	return l, err
}

// image returns the image with this last part of its name. ok is false for images that the cluster
// does without.
func (l layers) image(base string) (_ v1.Image, ok bool, err error) {
	path := v1.Config{Env: []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}
	switch base {
	case "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler":
		img, err := containerimage.New(path, l.kube)
		return img, true, err
	case "kube-proxy":
		img, err := containerimage.New(path, l.kube, l.nft)
		return img, true, err
	case "pause":
		img, err := containerimage.New(v1.Config{Entrypoint: []string{"/pause"},
			User: "65535:65535"}, l.pause)
		return img, true, err
	default:
		return nil, false, nil
	}
}

func compilePause(ctx context.Context, temp string) ([]byte, error) {
	out := filepath.Join(temp, "pause")
	defer os.Remove(out)
	cmd := child.Isolated(ctx, "gcc", "-Os", "-static", "-s", "-x", "c", "-o", out, "-")
	cmd.Stdin = strings.NewReader(pauseSource)
	if _, err := output(cmd); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
}

// nftFiles returns nft, which kube-proxy runs, and the libraries that it loads.
func nftFiles(ctx context.Context, tree string) (image.Files, error) {
	const program = "/usr/sbin/nft"
	out, err := output(exec.CommandContext(ctx, "chroot", tree, "ldd", program))
	if err != nil {
		return nil, err
	}
	files := image.Files{
		"lib":   {Link: "usr/lib"},
		"lib64": {Link: "usr/lib64"},
	}
	for _, word := range append(strings.Fields(out), program) {
		if !strings.HasPrefix(word, "/") {
			continue
		}
		if !strings.HasPrefix(word, "/usr/") { // /lib is a link to usr/lib
			word = "/usr" + word
		}
		content, err := os.ReadFile(filepath.Join(tree, word))
		if err != nil {
			return nil, err
		}
		files[strings.TrimPrefix(word, "/")] = image.File{Content: content, Mode: 0o755}
	}
	return files, nil
}
