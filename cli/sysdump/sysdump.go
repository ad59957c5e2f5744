package sysdump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/v1alpha1"
)

const (
	// Selector selects the objects of the installation.
	Selector = "app.kubernetes.io/name=mooring"

	// Limit is the default bound of the content, in bytes before compression.
	Limit = 256 << 20

	maxLog      = 2 << 20 // bytes of the log of one container
	partTimeout = time.Minute
	parallel    = 8
)

// reservations is the resource of MigrationReservations.
const reservations = "migrationreservations"

// Part is a file of the archive.
type Part struct {
	Name string
	Read func(context.Context) ([]byte, error)
}

// Dump collects the state of Mooring in a cluster.
type Dump struct {
	Client    kubernetes.Interface
	Mooring   rest.Interface // of mooring.dev/v1alpha1
	Namespace string         // of Mooring's pods
	Extra     []Part         // from the caller
	Now       time.Time
	Limit     int64 // bytes before compression

	done, all atomic.Int64
}

// Progress returns the number of completed parts, and of all known parts.
func (d *Dump) Progress() (done, all int64) { return d.done.Load(), d.all.Load() }

// Write writes the archive. It returns the parts that the archive lacks, with reasons, and an error
// if it could not be written.
func (d *Dump) Write(ctx context.Context, w io.Writer, dir string) (missing []string, err error) {
	a := newArchive(w, dir, d.Now, d.Limit)
	pods, podsErr := d.pods(ctx)
	switch {
	case podsErr != nil:
		a.fail("logs", podsErr)
	case len(pods) == 0:
		a.fail("logs", fmt.Errorf("no pod of Mooring in namespace %s: want --namespace with the "+
			"namespace of the installation", d.Namespace))
	}
	parts := append(d.objects(), d.Extra...)
	for i := range pods {
		parts = append(parts, d.logs(&pods[i])...)
	}
	d.all.Store(int64(len(parts)))
	var group errgroup.Group
	group.SetLimit(parallel)
	for _, part := range parts {
		group.Go(func() error {
			defer d.done.Add(1)
			partCtx, cancel := context.WithTimeout(ctx, partTimeout)
			defer cancel()
			text, err := part.Read(partCtx)
			if err != nil {
				a.fail(part.Name, err)
			}
			if len(text) > 0 {
				a.add(part.Name, text)
			}
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	failed, err := a.close()
	for _, f := range failed {
		missing = append(missing, f.part+": "+f.reason)
	}
	return missing, err
}

func (d *Dump) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := d.Client.CoreV1().Pods(d.Namespace).List(ctx, mooring())
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func mooring() metav1.ListOptions { return metav1.ListOptions{LabelSelector: Selector} }

// objects returns the objects of Mooring, and of its installation. Secrets are none of them.
func (d *Dump) objects() []Part {
	in := d.Namespace
	parts := []Part{
		{"version.yaml", func(context.Context) ([]byte, error) {
			return asYAML(d.Client.Discovery().ServerVersion())
		}},
		{"nodes.yaml", func(ctx context.Context) ([]byte, error) {
			return asYAML(d.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}))
		}},
		{"pods.yaml", func(ctx context.Context) ([]byte, error) {
			return asYAML(d.Client.CoreV1().Pods(in).List(ctx, mooring()))
		}},
		{"configmaps.yaml", func(ctx context.Context) ([]byte, error) {
			return asYAML(d.Client.CoreV1().ConfigMaps(in).List(ctx, mooring()))
		}},
		{"daemonsets.yaml", func(ctx context.Context) ([]byte, error) {
			return asYAML(d.Client.AppsV1().DaemonSets(in).List(ctx, mooring()))
		}},
		{"deployments.yaml", func(ctx context.Context) ([]byte, error) {
			return asYAML(d.Client.AppsV1().Deployments(in).List(ctx, mooring()))
		}},
		{"validatingwebhookconfigurations.yaml", func(ctx context.Context) ([]byte, error) {
			return asYAML(d.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().
				List(ctx, mooring()))
		}},
		{"mutatingwebhookconfigurations.yaml", func(ctx context.Context) ([]byte, error) {
			return asYAML(d.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().
				List(ctx, mooring()))
		}},
		{"events.yaml", d.events},
		{"resourcequotas.yaml", d.quotas},
	}
	for _, resource := range []string{"nodepolicies", "nodestates", reservations} {
		parts = append(parts, Part{resource + ".yaml", func(ctx context.Context) ([]byte, error) {
			text, err := d.Mooring.Get().Resource(resource).SetHeader("Accept", "application/json").
				Do(ctx).Raw()
			if err != nil {
				return nil, err
			}
			return yaml.JSONToYAML(text)
		}})
	}
	return parts
}

// events returns the Events of Mooring in all namespaces, and all Events of its own namespace.
func (d *Dump) events(ctx context.Context) ([]byte, error) {
	list, err := d.Client.EventsV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	kept := list.Items[:0]
	for _, e := range list.Items {
		if e.Namespace == d.Namespace || agentapi.IsReporter(e.ReportingController) {
			kept = append(kept, e)
		}
	}
	list.Items = kept
	return asYAML(list, nil)
}

// quotas returns the ResourceQuotas of the namespaces with reservations. An error about one
// namespace does not hide the quotas of another.
func (d *Dump) quotas(ctx context.Context) ([]byte, error) {
	var reserved v1alpha1.MigrationReservationList
	if err := d.Mooring.Get().Resource(reservations).Do(ctx).Into(&reserved); err != nil {
		return nil, err
	}
	namespaces := map[string]bool{}
	for i := range reserved.Items {
		namespaces[reserved.Items[i].Namespace] = true
	}
	all := corev1.ResourceQuotaList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuotaList"}}
	var errs []error
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		list, err := d.Client.CoreV1().ResourceQuotas(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			errs = append(errs, fmt.Errorf("namespace %s: %w", namespace, err))
			continue
		}
		all.Items = append(all.Items, list.Items...)
	}
	text, err := asYAML(all, nil)
	return text, errors.Join(append(errs, err)...)
}

// logs returns the logs of a pod's containers. After a restart it adds the previous log.
func (d *Dump) logs(pod *corev1.Pod) (parts []Part) {
	add := func(container, suffix string, previous bool) {
		parts = append(parts, Part{fmt.Sprintf("logs/%s/%s%s", pod.Name, container, suffix),
			func(ctx context.Context) ([]byte, error) {
				return d.log(ctx, pod, container, previous)
			}})
	}
	for _, c := range pod.Spec.Containers {
		add(c.Name, ".log", false)
	}
	for _, c := range pod.Spec.InitContainers {
		add(c.Name, ".log", false)
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.RestartCount > 0 {
			add(s.Name, ".previous.log", true)
		}
	}
	return parts
}

// log returns the end of a log. LimitBytes alone would return its start.
func (d *Dump) log(ctx context.Context, pod *corev1.Pod, container string, previous bool) (
	[]byte, error,
) {
	lines, limit := int64(5000), int64(maxLog)
	return d.Client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: container, Previous: previous, Timestamps: true, TailLines: &lines,
		LimitBytes: &limit,
	}).DoRaw(ctx)
}

func asYAML(value any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(value)
}
