// Package fence lists and releases deleted pods with living VMs: see package fencing.
package fence

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/fencing"
	"github.com/mooring-vm/mooring/internal/plaintext"
)

const reporter = "mooring" // of Events

// Cluster is a cluster with fencing.
type Cluster struct {
	Client client.Client // uncached
	Now    func() time.Time
	Print  func(line string)
}

// Waiting is a waiting pod with the missing proof.
type Waiting struct {
	Pod *corev1.Pod
	fencing.Decision
}

// List returns the waiting pods of a node, or of all nodes if node is empty.
func (c *Cluster) List(ctx context.Context, node string) ([]Waiting, error) {
	pods := &corev1.PodList{}
	labelled := client.MatchingLabelsSelector{Selector: fencing.Labelled()}
	if err := c.Client.List(ctx, pods, labelled); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var all []Waiting
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !fencing.Waits(pod) || node != "" && pod.Spec.NodeName != node {
			continue
		}
		facts, err := fencing.ReadFacts(ctx, c.Client, c.Client, pod, c.Now())
		if err != nil {
			return nil, err
		}
		all = append(all, Waiting{pod, fencing.Decide(facts)})
	}
	return all, nil
}

// Release releases the deleted pods of a node on the word of the caller: its machine is off. It
// refuses a node that shows a sign of life, unless force is set.
func (c *Cluster) Release(ctx context.Context, node string, force bool) error {
	if sign, err := c.signOfLife(ctx, node); err != nil {
		return err
	} else if sign != "" && !force {
		return fmt.Errorf("node %s lives: %s: a released VM could run twice; --force if you know "+
			"that the VMs of its deleted pods have ended", node, sign)
	}
	all, err := c.List(ctx, node)
	if err != nil {
		return err
	}
	var errs []error
	for _, w := range all {
		errs = append(errs, c.release(ctx, w))
	}
	if len(all) == 0 {
		c.Print(fmt.Sprintf("no deleted pod of node %s waits", node))
	}
	return errors.Join(errs...)
}

// signOfLife returns the last sign of a running machine; empty: there is none.
func (c *Cluster) signOfLife(ctx context.Context, name string) (string, error) {
	state := &v1alpha1.NodeState{}
	err := c.Client.Get(ctx, client.ObjectKey{Name: name}, state)
	if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
		return "", fmt.Errorf("read nodestate %s: %w", name, err)
	}
	if err == nil && !state.Silent(c.Now()) {
		return "its agent reported at " + state.Status.HeartbeatTime.UTC().Format(time.RFC3339), nil
	}
	node := &corev1.Node{}
	err = c.Client.Get(ctx, client.ObjectKey{Name: name}, node)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read node %s: %w", name, err)
	}
	if err == nil && fencing.Ready(node) {
		return "it is ready", nil
	}
	return "", nil
}

func (c *Cluster) release(ctx context.Context, w Waiting) error {
	err := fencing.Release(ctx, c.Client, w.Pod)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	c.Print(fmt.Sprintf("pod %s/%s: released", w.Pod.Namespace, w.Pod.Name))
	if err := c.Client.Create(ctx, c.event(w)); err != nil {
		// In a namespace that is being deleted there are no Events.
		c.Print(fmt.Sprintf("pod %s/%s: no Event: %v", w.Pod.Namespace, w.Pod.Name, err))
	}
	return nil
}

// event has the evidence of a release.
func (c *Cluster) event(w Waiting) *eventsv1.Event {
	note := fmt.Sprintf("%s: an administrator ran `mooring fence %s`; before: %s: %s",
		fencing.NodeFenced, w.Pod.Spec.NodeName, w.Reason, w.Message)
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Pod.Namespace, GenerateName: "mooring-fence-"},
		EventTime:  metav1.NewMicroTime(c.Now()), Type: corev1.EventTypeNormal,
		Reason: fencing.ReasonReleased, Action: string(fencing.NodeFenced),
		Note:                plaintext.Cut(note, plaintext.MaxNote),
		ReportingController: reporter, ReportingInstance: reporter,
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod",
			Namespace: w.Pod.Namespace, Name: w.Pod.Name, UID: w.Pod.UID},
	}
}
