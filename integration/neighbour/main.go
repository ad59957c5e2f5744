// Command neighbour is a second NRI plugin beside Mooring. It sets RLIMIT_MEMLOCK by annotations in
// the form of NRI's ulimit-adjuster, and by the same form below a key unknown to Mooring:
//
//	ulimits.noderesource.dev/container.NAME: '[{type: memlock, soft: 1, hard: 1}]'
//
// Tests run it on a node together with Mooring.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/opencontainers/runtime-spec/specs-go"
	"sigs.k8s.io/yaml"
)

// annotations returns the key of ulimit-adjuster and a key unknown to Mooring.
func annotations() []string {
	return []string{"ulimits.noderesource.dev", "ulimits.neighbour.example"}
}

type neighbour struct{}

//nolint:unparam // the stub demands the signature
func (neighbour) CreateContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	adjustment := &api.ContainerAdjustment{}
	for _, annotation := range annotations() {
		key := annotation + "/container." + c.GetName()
		var ulimits []specs.POSIXRlimit
		if err := yaml.UnmarshalStrict([]byte(pod.GetAnnotations()[key]), &ulimits); err != nil {
			return nil, nil, fmt.Errorf("annotation %s: %w", key, err)
		}
		for _, u := range ulimits {
			if u.Type == "memlock" {
				adjustment.AddRlimit("RLIMIT_MEMLOCK", u.Hard, u.Soft)
			}
		}
	}
	return adjustment, nil, nil
}

func main() {
	name := flag.String("name", "neighbour", "name in containerd's log")
	index := flag.String("index", "95", "position among the plugins; Mooring has 90")
	flag.Parse()
	s, err := stub.New(neighbour{}, stub.WithPluginName(*name), stub.WithPluginIdx(*index))
	if err == nil {
		err = s.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "neighbour:", err)
		os.Exit(1)
	}
}
