package explain

import (
	gojson "encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/internal/yamldoc"
)

// MaxPodSize is the largest pod that ParsePod reads, in bytes. etcd takes 1.5 MiB.
const MaxPodSize = 4 << 20

// ParsePod reads one pod in YAML or JSON, strictly. Its errors name unknown fields (all at once),
// duplicate keys, several documents and other kinds.
func ParsePod(data []byte) (*corev1.Pod, error) {
	if len(data) > MaxPodSize {
		return nil, fmt.Errorf("pod of more than %d bytes", MaxPodSize)
	}
	if err := yamldoc.CheckOne(data); err != nil {
		return nil, fmt.Errorf("pod: %w", err)
	}
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("pod: no valid YAML: %w", err)
	}
	if err := checkKind(asJSON); err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	faults, err := json.UnmarshalStrict(asJSON, pod)
	if wrong, ok := errors.AsType[*gojson.UnmarshalTypeError](err); ok {
		return nil, typeError(wrong)
	}
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, fmt.Errorf("pod: %w", err)
	}
	return pod, checkPod(pod)
}

// checkKind reports another kind before its fields count as unknown.
func checkKind(asJSON []byte) error {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := gojson.Unmarshal(asJSON, &head); err != nil {
		return errors.New("pod: want a mapping with apiVersion, kind, metadata and spec, " +
			"and apiVersion and kind as strings")
	}
	if head.APIVersion == "v1" && head.Kind == "Pod" {
		return nil
	}
	return fmt.Errorf("apiVersion %q, kind %q: want one object with apiVersion v1 and kind Pod; "+
		"for other kinds, "+
		"take a pod that was made of it: kubectl get pod NAME -o yaml", head.APIVersion, head.Kind)
}

func typeError(wrong *gojson.UnmarshalTypeError) error {
	hint := ""
	if wrong.Type.Kind().String() == "string" {
		hint = "; quote it"
	}
	return fmt.Errorf("pod: %s: %s: want a %s%s", wrong.Field, wrong.Value, wrong.Type.Kind(), hint)
}

// checkPod checks the fields that a decision needs, as the API server would.
func checkPod(pod *corev1.Pod) error {
	if pod.Name == "" && pod.GenerateName == "" {
		return errors.New("pod: metadata.name: missing")
	}
	if len(pod.Spec.Containers) == 0 {
		return errors.New("pod: spec.containers: missing: want at least one")
	}
	seen := map[string]bool{}
	for _, c := range containersOf(pod) {
		if c.Name == "" || seen[c.Name] {
			return fmt.Errorf("pod: container name %q: want a name, each once", c.Name)
		}
		seen[c.Name] = true
	}
	return nil
}

// Kind is a container's list in the pod.
type Kind string

// The kinds of containers.
const (
	Regular   Kind = "container"
	Init      Kind = "init container"
	Sidecar   Kind = "sidecar" // an init container with restartPolicy Always
	Ephemeral Kind = "ephemeral container"
)

type container struct {
	*corev1.Container
	kind Kind
}

// containersOf lists the containers in the order of their creation.
func containersOf(pod *corev1.Pod) (all []container) {
	for i := range pod.Spec.InitContainers {
		c := container{&pod.Spec.InitContainers[i], Init}
		if p := c.RestartPolicy; p != nil && *p == corev1.ContainerRestartPolicyAlways {
			c.kind = Sidecar
		}
		all = append(all, c)
	}
	for i := range pod.Spec.Containers {
		all = append(all, container{&pod.Spec.Containers[i], Regular})
	}
	for i := range pod.Spec.EphemeralContainers {
		common := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		all = append(all, container{&common, Ephemeral})
	}
	return all
}

// memoryLimit returns the limit that kubelet passes to the runtime: the container's, or else the
// pod's. 0 means none (getMemoryLimit in pkg/kubelet/kuberuntime/kuberuntime_container_linux.go of
// Kubernetes 1.37).
func memoryLimit(pod *corev1.Pod, c container) (bytes int64, fromPod bool) {
	if own := c.Resources.Limits.Memory(); !own.IsZero() {
		return own.Value(), false
	}
	if pod.Spec.Resources == nil {
		return 0, false
	}
	limit := pod.Spec.Resources.Limits.Memory().Value()
	return limit, limit != 0
}

// hugePages returns the huge-page limit that kubelet sets for the pod's cgroup: the sum over its
// containers, or else the pod's own limit. An init container that ends before them can have more.
func hugePages(pod *corev1.Pod) int64 {
	limits := podresource.PodLimits(pod, podresource.PodResourcesOptions{})
	var sum int64
	for name, limit := range limits {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			sum += limit.Value()
		}
	}
	return sum
}

// cpus returns the number of CPUs that the runtime gets, in thousandths: the larger of limit and
// request. It ignores exclusive CPUs, which never exceed them.
func cpus(pod *corev1.Pod, c container) int64 {
	return max(cpuLimit(pod, c), c.Resources.Requests.Cpu().MilliValue())
}

// cpuLimit is memoryLimit for CPUs (getCPULimit).
func cpuLimit(pod *corev1.Pod, c container) int64 {
	if own := c.Resources.Limits.Cpu(); !own.IsZero() {
		return own.MilliValue()
	}
	if pod.Spec.Resources == nil {
		return 0
	}
	return pod.Spec.Resources.Limits.Cpu().MilliValue()
}
