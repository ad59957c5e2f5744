package main

import (
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/util"
)

// This file has the code for one version of KubeVirt. The file main.go is a link to that of 1.7.

func daemonSet(image string) any {
	return components.NewHandlerDaemonSet(&util.KubeVirtDeploymentConfig{
		Namespace: namespace,
		ComponentImages: util.ComponentImages{
			VirtHandlerImage: image, VirtLauncherImage: image, PrHelperImage: image,
			SidecarShimImage: image,
		},
		AdditionalProperties: map[string]string{
			util.AdditionalPropertiesNamePullPolicy: string(corev1.PullNever),
		},
	}, "", "", "")
}
