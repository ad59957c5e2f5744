package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"k8s.io/klog/v2"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// waiter follows a resize requested by a patch of the pod.
type waiter struct {
	*Program
	cluster         *cluster
	namespace, name string
	size            api.Size
	flags           resizeFlags

	uid              string
	alreadyRequested bool   // the pod already had these annotations, so there may be no new report
	agentGeneration  uint64 // generation shown by this node's agent before the patch
	version          string // resourceVersion of the Event list before the patch
	last             *corev1.Event
	history          resizeHistory // from Events before the patch
	shown            *progress     // of the reports in Events
}

// prepare records earlier reports before the patch.
func (w *waiter) prepare(ctx context.Context, asked map[string]string) error {
	bounded, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	pod, err := w.cluster.CoreV1().Pods(w.namespace).Get(bounded, w.name, metav1.GetOptions{})
	if err != nil {
		return clusterError(err, "get", "pods",
			fmt.Sprintf("resize of pod %s/%s", w.namespace, w.name))
	}
	w.uid, w.alreadyRequested = string(pod.UID), true
	for key, value := range asked {
		w.alreadyRequested = w.alreadyRequested && pod.Annotations[key] == value
	}
	if size, err := api.ParseSize(pod.Annotations, ""); err == nil {
		w.alreadyRequested = w.alreadyRequested || covers(size, w.size) // in a different notation
	}
	ref := agentapi.PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: w.uid}
	if l, here := w.launcherHere(ctx, ref); here {
		if l.Resize != nil {
			w.agentGeneration = l.Resize.Report.Generation
		}
		return nil
	}
	return w.listEvents(bounded)
}

// listEvents records earlier Events about resizes and the position in the Event stream.
func (w *waiter) listEvents(ctx context.Context) error {
	list, err := w.events().List(ctx, w.ofPod(metav1.ListOptions{}))
	if err != nil {
		return clusterError(err, "list", "events",
			fmt.Sprintf("Events of pod %s/%s", w.namespace, w.name))
	}
	w.version = list.ResourceVersion
	for i := range list.Items {
		e := &list.Items[i]
		if !isResize(e) {
			continue
		}
		w.history.add(e)
		if w.last == nil || timeOf(e).After(timeOf(w.last)) {
			w.last = e
		}
	}
	return nil
}

// wait shows reports until the VM has the desired size or the resize failed.
func (w *waiter) wait(ctx context.Context, pod agentapi.PodRef) error {
	if pod.UID != w.uid {
		return fmt.Errorf("pod %s/%s was replaced by another pod, which got the patch",
			pod.Namespace, pod.Name)
	}
	if w.alreadyRequested {
		fmt.Fprintln(w.ErrOut, "the pod already had these annotations")
	}
	if w.version == "" {
		since := agentapi.ResizedPod{UID: pod.UID, Generation: w.agentGeneration}
		if !w.alreadyRequested {
			since.Generation++
		}
		return w.follow(ctx, pod, since, w.flags)
	}
	return w.followEvents(ctx)
}

// followEvents follows the pod's Events. It is for pods on other nodes.
func (w *waiter) followEvents(ctx context.Context) error {
	fmt.Fprintln(w.ErrOut, "the pod runs on another node: following its Events, which show the "+
		"plan at the start and all steps at the end")
	w.shown = newProgress(w.Out)
	if w.alreadyRequested && w.last != nil {
		if over, err := w.show(w.last); over || err != nil {
			return err
		}
	}
	// without the watch's own log lines
	ctx, cancel := context.WithTimeout(klog.NewContext(ctx, klog.Logger{}), w.flags.timeout)
	defer cancel()
	source := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context,
		o metav1.ListOptions) (watch.Interface, error) {
		return w.events().Watch(ctx, w.ofPod(o))
	}}
	end := w.progress(w.shown.current)
	_, err := toolswatch.Until(ctx, w.version, source, w.event)
	end()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("waited for %s without an Event about the end of the resize: agents "+
			"limit Events, and without Mooring's sidecar in the pod there are none; "+
			"`mooring inspect` on the pod's node shows the progress", w.flags.timeout)
	}
	return err
}

func (w *waiter) events() corev1client.EventInterface {
	return w.cluster.CoreV1().Events(w.namespace)
}

// ofPod selects the Events of the patched pod.
func (w *waiter) ofPod(o metav1.ListOptions) metav1.ListOptions {
	o.FieldSelector = fields.Set{"involvedObject.kind": "Pod", "involvedObject.uid": w.uid}.String()
	return o
}

// event shows an Event. over is true for the last one.
func (w *waiter) event(e watch.Event) (over bool, err error) {
	if e.Type == watch.Error {
		return false, clusterError(apierrors.FromObject(e.Object), "watch", "events",
			fmt.Sprintf("Events of pod %s/%s", w.namespace, w.name))
	}
	event, ok := e.Object.(*corev1.Event)
	if !ok || e.Type == watch.Deleted || !isResize(event) {
		return false, nil
	}
	return w.show(event)
}

// show prints the report in an Event about this request, and only the text of other Events.
func (w *waiter) show(e *corev1.Event) (over bool, err error) {
	ours := w.isNew(e) && w.matchesSize(e)
	if report, ok := reportOf(e); ok && ours {
		return w.shown.show(report)
	}
	fmt.Fprintf(w.Out, "%s  %s  %s\n", timeOf(e).Local().Format(time.TimeOnly), printable(e.Reason),
		printable(e.Message))
	switch agentapi.Reason(e.Reason) {
	case agentapi.ReasonResizeDone:
		return ours, nil
	case agentapi.ReasonResizeFailed:
		if ours {
			return true, errors.New("the VM could not be resized")
		}
	}
	return false, nil
}

func isResize(e *corev1.Event) bool {
	switch agentapi.Reason(e.Reason) {
	case agentapi.ReasonResizeStarted, agentapi.ReasonResizeDone, agentapi.ReasonResizeFailed:
		return true
	}
	return false
}

// timeOf returns the time of an Event's last occurrence.
func timeOf(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	return e.EventTime.Time
}
