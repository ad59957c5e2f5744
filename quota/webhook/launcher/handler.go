package launcher

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/quota/virt"
	"github.com/mooring-vm/mooring/quota/webhook/observe"
)

// timeout bounds the reads for a pod. The API server waits a little longer.
const timeout = 3 * time.Second

// Config configures a handler.
type Config struct {
	// Reader reads from the API server: namespaces, pods, and VirtualMachineInstances as
	// unstructured objects, which keep unknown fields.
	Reader client.Reader

	// Cluster returns the settings of the cluster's KubeVirt. Nil: read with Reader for each pod.
	Cluster func(context.Context) (virt.Cluster, error)

	// Shim configures the optional sidecar.
	Shim Shim

	// Observe reports changes and refusals in place of making them. Nil: make them.
	Observe *observe.Reporter

	// Events receives the warnings of each answer, on the pod's VM. It must not block. Nil: none.
	Events events.EventRecorder

	// Logger gets failures. Nil: no log.
	Logger *slog.Logger
}

// New returns the handler. It may be called concurrently. If an input is unreadable within three
// seconds, the pod passes unchanged with a warning. A migration's target is refused then if its VM
// may have been resized in place.
func New(c Config) admission.Handler {
	if c.Cluster == nil {
		c.Cluster = func(ctx context.Context) (virt.Cluster, error) {
			return virt.Read(ctx, c.Reader)
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &handler{c}
}

type handler struct{ Config }

// Handle implements admission.Handler.
func (h *handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(req.Object.Raw, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the pod: %w", err))
	}
	pod.Namespace = req.Namespace // may be empty in a new pod
	if _, _, ok := IsLauncher(pod); !ok {
		return admission.Allowed("")
	}
	log := h.Logger.With("pod", req.Namespace+"/"+pod.GenerateName+pod.Name)
	resp := h.decide(ctx, pod, log)
	reportWarnings(h.Events, req, pod, resp.Warnings)
	if h.Observe != nil {
		return h.observe(req, pod, resp)
	}
	return resp
}

// decide answers as in mode enforce.
func (h *handler) decide(
	ctx context.Context, pod *corev1.Pod, log *slog.Logger,
) admission.Response {
	in, err := h.read(ctx, pod)
	if err != nil {
		return allowUnread(in, err, log)
	}
	if in.VMI == nil {
		log.Debug("the VM of a launcher pod is gone")
		return admission.Allowed("")
	}
	return respond(in, log)
}

// allowUnread answers after a failed read. It refuses a migration's target if the VM may have been
// resized in place.
func allowUnread(in Input, err error, log *slog.Logger) admission.Response {
	if in.mayBeResized() {
		log.Warn("refused a launcher pod", "error", err)
		return admission.Denied(refuseUnsized(err).Error())
	}
	log.Warn("left a launcher pod unchanged", "error", err)
	return admission.Allowed("").WithWarnings(unchangedWarning(err))
}

// respond answers with the mutated pod.
func respond(in Input, log *slog.Logger) admission.Response {
	out, err := Mutate(in)
	if err != nil {
		log.Warn("refused a launcher pod", "reason", err)
		return admission.Denied(err.Error())
	}
	for _, warning := range out.Warnings {
		log.Warn(warning)
	}
	if out.Pod == nil {
		return admission.Allowed("").WithWarnings(out.Warnings...)
	}
	return patch(in.Pod, out.Pod).WithWarnings(out.Warnings...)
}

// patch is the difference between two versions of a pod. It does not start from the request's JSON,
// so fields unknown to this program stay unchanged.
func patch(before, after *corev1.Pod) admission.Response {
	from, err := json.Marshal(before)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError,
			fmt.Errorf("writing the pod: %w", err))
	}
	to, err := json.Marshal(after)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError,
			fmt.Errorf("writing the pod: %w", err))
	}
	return admission.PatchResponseFromRaw(from, to)
}

// read reads all inputs concurrently. Without a VMI in the result the pod's VMI is gone.
func (h *handler) read(ctx context.Context, pod *corev1.Pod) (Input, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	in := Input{Pod: pod, Shim: h.Shim}
	var all errgroup.Group
	all.Go(func() error { return h.readVMI(ctx, &in) })
	all.Go(func() error { return h.readNamespace(ctx, &in) })
	all.Go(func() (err error) {
		in.Cluster, err = h.Cluster(ctx)
		return err
	})
	if isTarget(pod) {
		all.Go(func() error {
			in.Launchers, in.LaunchersErr = h.launchers(ctx, pod)
			return nil
		})
	}
	err := all.Wait()
	return in, err
}

// readVMI reads the VMI of a launcher, if it exists.
func (h *handler) readVMI(ctx context.Context, in *Input) error {
	name, uid, _ := IsLauncher(in.Pod)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kubevirtv1.VirtualMachineInstanceGroupVersionKind)
	err := h.Reader.Get(ctx, client.ObjectKey{Namespace: in.Pod.Namespace, Name: name}, object)
	if apierrors.IsNotFound(err) || err == nil && object.GetUID() != uid {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading VirtualMachineInstance %s/%s: %w", in.Pod.Namespace, name, err)
	}
	if in.Reserved, err = ReadReserved(object.Object); err != nil {
		return fmt.Errorf("VirtualMachineInstance %s/%s: %w", in.Pod.Namespace, name, err)
	}
	vmi := &kubevirtv1.VirtualMachineInstance{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object,
		vmi); err != nil {
		return fmt.Errorf("VirtualMachineInstance %s/%s: %w", in.Pod.Namespace, name, err)
	}
	in.VMI = vmi
	return nil
}

func (h *handler) readNamespace(ctx context.Context, in *Input) error {
	ns := &corev1.Namespace{}
	if err := h.Reader.Get(ctx, client.ObjectKey{Name: in.Pod.Namespace}, ns); err != nil {
		return fmt.Errorf("reading namespace %s: %w", in.Pod.Namespace, err)
	}
	in.Namespace = ns.Annotations
	return nil
}

// launchers returns the launcher pods of the pod's VMI.
func (h *handler) launchers(ctx context.Context, pod *corev1.Pod) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	of := client.MatchingLabels{kubevirtv1.CreatedByLabel: pod.Labels[kubevirtv1.CreatedByLabel]}
	if err := h.Reader.List(ctx, list, client.InNamespace(pod.Namespace), of); err != nil {
		return nil, fmt.Errorf("listing the launchers of the VM: %w", err)
	}
	return list.Items, nil
}
