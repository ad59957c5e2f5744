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

// waiter follows a resize that was asked for by patching the pod.
type waiter struct {
	*Program
	cluster         *cluster
	namespace, name string
	size            api.Size
	flags           resizeFlags

	uid     string
	same    bool   // the pod has asked for it already, so nothing new may be told
	told    uint64 // latest generation that the agent of this node showed before
	version string // of the list of Events before
	last    *corev1.Event
	before  told     // what Events had told by then
	shown   progress // of the reports that Events carry
}

// begin notes what was told before the pod is patched.
func (w *waiter) begin(ctx context.Context, asked map[string]string) error {
	bounded, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	pod, err := w.cluster.CoreV1().Pods(w.namespace).Get(bounded, w.name, metav1.GetOptions{})
	if err != nil {
		return clusterError(err, "get", "pods", fmt.Sprintf("resize of pod %s/%s", w.namespace, w.name))
	}
	w.uid, w.same = string(pod.UID), true
	for key, value := range asked {
		w.same = w.same && pod.Annotations[key] == value
	}
	if size, err := api.ParseSize(pod.Annotations, ""); err == nil {
		w.same = w.same || covers(size, w.size) // in other words
	}
	ref := agentapi.PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: w.uid}
	if l, here := w.launcherHere(ctx, ref); here {
		if l.Resize != nil {
			w.told = l.Resize.Report.Generation
		}
		return nil
	}
	return w.listEvents(bounded)
}

// listEvents notes which Events tell of a resize, and the last of them.
func (w *waiter) listEvents(ctx context.Context) error {
	list, err := w.events().List(ctx, w.ofPod(metav1.ListOptions{}))
	if err != nil {
		return clusterError(err, "list", "events", fmt.Sprintf("Events of pod %s/%s", w.namespace, w.name))
	}
	w.version = list.ResourceVersion
	for i := range list.Items {
		e := &list.Items[i]
		if !isResize(e) {
			continue
		}
		w.before.note(e)
		if w.last == nil || timeOf(e).After(timeOf(w.last)) {
			w.last = e
		}
	}
	return nil
}

// wait shows what is told until the VM is as wanted, or cannot become so.
func (w *waiter) wait(ctx context.Context, pod agentapi.PodRef) error {
	if pod.UID != w.uid {
		return fmt.Errorf("pod %s/%s was replaced by another meanwhile, which was patched", pod.Namespace, pod.Name)
	}
	if w.same {
		fmt.Fprintln(w.ErrOut, "the pod has asked for that before")
	}
	if w.version == "" {
		since := agentapi.ResizedPod{UID: pod.UID, Generation: w.told}
		if !w.same {
			since.Generation++
		}
		return w.follow(ctx, pod, since, w.flags)
	}
	return w.followEvents(ctx)
}

// followEvents follows the pod's Events, where no agent that has the pod can be asked.
func (w *waiter) followEvents(ctx context.Context) error {
	fmt.Fprintln(w.ErrOut, "no agent here has the pod: what follows is what its Events tell: the plan when it begins, and all steps when it ends")
	w.shown = newProgress(w.Out)
	if w.same && w.last != nil {
		if over, err := w.show(w.last); over || err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(klog.NewContext(ctx, klog.Logger{}), w.flags.timeout) // what the watch logs is told by its end
	defer cancel()
	source := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return w.events().Watch(ctx, w.ofPod(o))
	}}
	_, err := toolswatch.Until(ctx, w.version, source, w.event)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("waited for %s, and no Event tells what became of it: there are few a minute, and none without Mooring's sidecar in the pod; "+
			"`mooring inspect` on its node shows how far it is", w.flags.timeout)
	}
	return err
}

func (w *waiter) events() corev1client.EventInterface { return w.cluster.CoreV1().Events(w.namespace) }

// ofPod selects the Events of the pod that was there at the beginning.
func (w *waiter) ofPod(o metav1.ListOptions) metav1.ListOptions {
	o.FieldSelector = fields.Set{"involvedObject.kind": "Pod", "involvedObject.uid": w.uid}.String()
	return o
}

// event shows an Event that came; true: it is the last.
func (w *waiter) event(e watch.Event) (over bool, err error) {
	if e.Type == watch.Error {
		return false, clusterError(apierrors.FromObject(e.Object), "watch", "events", fmt.Sprintf("Events of pod %s/%s", w.namespace, w.name))
	}
	event, ok := e.Object.(*corev1.Event)
	if !ok || e.Type == watch.Deleted || !isResize(event) {
		return false, nil
	}
	return w.show(event)
}

// show shows the report of an Event about what was asked for, as on the pod's node, and of
// others the words.
func (w *waiter) show(e *corev1.Event) (over bool, err error) {
	ours := w.isNews(e) && w.concerns(e)
	if report, ok := reportOf(e); ok && ours {
		return w.shown.show(report)
	}
	fmt.Fprintf(w.Out, "%s  %s  %s\n", timeOf(e).Local().Format(time.TimeOnly), printable(e.Reason), printable(e.Message))
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

// timeOf is when an Event was told last.
func timeOf(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	return e.EventTime.Time
}
