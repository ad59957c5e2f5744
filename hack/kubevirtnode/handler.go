package kubevirtnode

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-vm/mooring/hack/kubevirt"
)

// patience bounds one wait. A pod of an emulated node on a busy machine takes a minute to start.
const patience = 15 * time.Minute

const priorityClass = `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: kubevirt-cluster-critical}
value: 1000000000
`

// startHandler does the part of virt-operator for virt-handler of the chosen version, and returns
// when it is ready and has allowed VMs on each node.
func (c *Cluster) startHandler(ctx context.Context) error {
	programs, err := buildPrograms(ctx, c.builder.log)
	if err != nil {
		return err
	}
	defer programs.Close()
	objects, err := exec.CommandContext(ctx, filepath.Join(programs.Dir, manifestsProgram),
		imageName()).Output()
	if err != nil {
		return fmt.Errorf("making the objects of virt-handler: %w", err)
	}
	if _, err := c.Plane.Apply(ctx, bytes.NewReader(append([]byte(priorityClass),
		objects...))); err != nil {
		return err
	}
	return c.await(ctx, "virt-handler", func(ctx context.Context) error {
		set, err := c.client.AppsV1().DaemonSets(kubevirt.Namespace).Get(ctx, "virt-handler",
			metav1.GetOptions{})
		if err != nil {
			return err
		}
		s, want := set.Status, int32(len(c.Nodes))
		if s.ObservedGeneration < set.Generation || s.UpdatedNumberScheduled < want ||
			s.NumberReady < want {
			return fmt.Errorf("of %d pods, %d updated and %d ready", want,
				s.UpdatedNumberScheduled, s.NumberReady)
		}
		allowed, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{
			LabelSelector: "kubevirt.io/schedulable=true"})
		if err != nil {
			return err
		}
		if len(allowed.Items) < len(c.Nodes) {
			return fmt.Errorf("%d of %d nodes with the label kubevirt.io/schedulable=true",
				len(allowed.Items), len(c.Nodes))
		}
		return nil
	})
}

// await calls check until it returns nil. The error of a late one has the last error of check.
func (c *Cluster) await(
	ctx context.Context, what string, check func(ctx context.Context) error,
) error {
	last := error(nil)
	err := wait.PollUntilContextTimeout(ctx, time.Second, patience, true,
		func(ctx context.Context) (bool, error) {
			last = check(ctx)
			return last == nil, nil
		})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w: %w", what, err, last)
	}
	return nil
}
