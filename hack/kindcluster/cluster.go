// Package kindcluster makes a kind cluster on a machine with docker, and loads images into it.
package kindcluster

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/template"

	"github.com/mooring-vm/mooring/hack/throwaway/channel"
)

// Name is the name of the cluster.
const Name = "mooring"

// Port is the port of the API server on an emulated host.
const Port = 6443

// Options of Create.
type Options struct {
	// Image is the node image, a reference in the host's docker.
	Image string
	// OwnNetwork is true for an image of nodeimage, which has neither a network plugin of its own
	// nor CoreDNS.
	OwnNetwork bool
	// Workers is the number of nodes besides the control plane.
	Workers int
	// Emulated is true for a host with emulated processors.
	Emulated bool
}

//go:embed kind.yaml.tmpl
var configTemplate string

// Config renders the cluster's configuration.
func Config(o Options) (string, error) {
	t, err := template.New("kind.yaml").Parse(configTemplate)
	if err != nil {
		return "", err
	}
	roles := []string{"control-plane"}
	for range o.Workers {
		roles = append(roles, "worker")
	}
	var out bytes.Buffer
	err = t.Execute(&out, struct {
		Options
		Name  string
		Port  int
		Roles []string
	}{o, Name, Port, roles})
	return out.String(), err
}

// Create makes the cluster and returns when all nodes are ready. It prints kind's steps.
func Create(ctx context.Context, h Host, o Options) error {
	text, err := Config(o)
	if err != nil {
		return err
	}
	if err := h.Run(ctx, channel.Command{
		Args:  []string{"kind", "create", "cluster", "--retain", "--config=-"},
		Stdin: strings.NewReader(text), Stdout: os.Stderr, Stderr: os.Stderr,
	}); err != nil {
		return fmt.Errorf("creating the cluster: %w", err)
	}
	if !o.OwnNetwork {
		return nil
	}
	if err := connectNodes(ctx, h); err != nil {
		return fmt.Errorf("connecting the nodes: %w", err)
	}
	return nil
}

// Delete removes the cluster. A missing cluster is no error.
func Delete(ctx context.Context, h Host) error {
	_, err := output(ctx, h, nil, "kind", "delete", "cluster", "--name="+Name)
	return err
}

// Exists reports whether the host has the cluster.
func Exists(ctx context.Context, h Host) (bool, error) {
	out, err := output(ctx, h, nil, "kind", "get", "clusters", "--quiet")
	for line := range strings.Lines(out) {
		if strings.TrimSpace(line) == Name {
			return true, err
		}
	}
	return false, err
}

// Load imports image archives, as hack/image and `docker save` write them, into all nodes.
func Load(ctx context.Context, h Host, archives ...string) error {
	for _, archive := range archives {
		if err := load(ctx, h, archive); err != nil {
			return fmt.Errorf("loading %s: %w", archive, err)
		}
	}
	return nil
}

func load(ctx context.Context, h Host, archive string) error {
	to, remove, err := h.Share(ctx, archive)
	if err != nil {
		return err
	}
	_, err = output(ctx, h, nil, "kind", "load", "image-archive", "--name="+Name, to)
	return errors.Join(err, remove())
}

// Kubeconfig returns the cluster's kubeconfig for use on the host.
func Kubeconfig(ctx context.Context, h Host) (string, error) {
	return output(ctx, h, nil, "kind", "get", "kubeconfig", "--name="+Name)
}

// Import makes a node image in the host's docker from an archive of its files.
func Import(ctx context.Context, h Host, archive, reference string, changes []string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	args := append([]string{"docker", "import"}, changes...)
	_, err = output(ctx, h, f, append(args, "-", reference)...)
	return err
}
