package main

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"

	"kubevirt.io/kubevirt/pkg/defaults"
	"kubevirt.io/kubevirt/pkg/hooks"
	"kubevirt.io/kubevirt/pkg/network/netbinding"
	virtconfig "kubevirt.io/kubevirt/pkg/virt-config"
	"kubevirt.io/kubevirt/pkg/virt-controller/services"
)

// namespace is the namespace of every VM and of the KubeVirt object.
const namespace = "vms"

// question is a VM with the settings of its cluster and namespace. Unknown fields are
// ignored, as KubeVirt does.
type question struct {
	VMI           v1.VirtualMachineInstance
	Configuration v1.KubeVirtConfiguration
	Labels        map[string]string   // of the namespace
	Hard          corev1.ResourceList // of the namespace's ResourceQuota
}

// answer holds the pods, or the error of KubeVirt. Attachment is empty without hot-plugged volumes.
type answer struct {
	Launcher, Attachment *corev1.PodSpec
	Error                string
}

func (q question) answer() answer {
	a := answer{}
	if err := q.render(&a); err != nil {
		return answer{Error: err.Error()}
	}
	return a
}

// render follows virt-api's webhook and virt-controller.
func (q question) render(a *answer) error {
	config, err := q.clusterConfig()
	if err != nil {
		return err
	}
	vmi := &q.VMI
	vmi.Namespace, vmi.UID = namespace, "uid"
	if err := defaults.SetDefaultVirtualMachineInstance(config, vmi); err != nil {
		return err
	}
	template := services.NewTemplateService("launcher", 240, "share", "ephemeral", "container", "hotplug",
		"", storeOf(claims()...), nil, config, 107, "exporter", storeOf(q.quota()), storeOf(q.namespace()),
		services.WithSidecarCreator(
			func(vmi *v1.VirtualMachineInstance, _ *v1.KubeVirtConfiguration) (hooks.HookSidecarList, error) {
				return hooks.UnmarshalHookSidecarList(vmi)
			}),
		services.WithSidecarCreator(netbinding.NetBindingPluginSidecarList), networkMemory)
	launcher, err := template.RenderLaunchManifest(vmi)
	if err != nil {
		return err
	}
	a.Launcher = &launcher.Spec
	volumes := hotplugged(vmi)
	if len(volumes) == 0 {
		return nil
	}
	vmi.Status.SelinuxContext = "none"
	attachment, err := template.RenderHotplugAttachmentPodTemplate(volumes, launcher, vmi, nil)
	if err == nil {
		a.Attachment = &attachment.Spec
	}
	return err
}

// clusterConfig is the configuration of a cluster with amd64 nodes.
func (q question) clusterConfig() (*virtconfig.ClusterConfig, error) {
	kubevirt := &v1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kubevirt", ResourceVersion: "1"}}
	kubevirt.Spec.Configuration = q.Configuration
	kubevirt.Status.Phase = v1.KubeVirtPhaseDeployed
	kubevirt.Status.DefaultArchitecture = "amd64"
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &v1.KubeVirt{}, 0, indexers)
	if err := informer.GetStore().Add(kubevirt); err != nil {
		return nil, fmt.Errorf("storing the KubeVirt object: %w", err)
	}
	crds := cache.NewSharedIndexInformer(&cache.ListWatch{}, &v1.KubeVirt{}, 0, indexers)
	return virtconfig.NewClusterConfigWithCPUArch(crds, informer, namespace, "amd64")
}

func (q question) quota() *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "quota"},
		Spec: corev1.ResourceQuotaSpec{Hard: q.Hard}}
}

func (q question) namespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: q.Labels}}
}

// claims are the PersistentVolumeClaims of the namespace.
func claims() []*corev1.PersistentVolumeClaim {
	block := corev1.PersistentVolumeBlock
	return []*corev1.PersistentVolumeClaim{
		{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "files"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "block"},
			Spec: corev1.PersistentVolumeClaimSpec{VolumeMode: &block}},
	}
}

func storeOf[T any](objects ...T) cache.Store {
	store := cache.NewStore(cache.DeletionHandlingMetaNamespaceKeyFunc)
	for _, o := range objects {
		if err := store.Add(o); err != nil {
			panic(err) // objects without metadata, so never
		}
	}
	return store
}

func hotplugged(vmi *v1.VirtualMachineInstance) []*v1.Volume {
	var all []*v1.Volume
	for i := range vmi.Spec.Volumes {
		volume := &vmi.Spec.Volumes[i]
		if claim := volume.PersistentVolumeClaim; claim != nil && claim.Hotpluggable {
			all = append(all, volume)
		}
	}
	return all
}

// answers answers a JSON list of questions.
func answers(input []byte) ([]answer, error) {
	var questions []question
	if err := json.Unmarshal(input, &questions); err != nil {
		return nil, err
	}
	all := make([]answer, len(questions))
	for i, q := range questions {
		all[i] = q.answer()
	}
	return all, nil
}
