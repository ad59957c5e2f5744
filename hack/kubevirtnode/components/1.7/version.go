package main

import (
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
)

// This file has the code for one version of KubeVirt. The other versions link to main.go.

func daemonSet(image string) any {
	const verbosity = "3"
	return components.NewHandlerDaemonSet(namespace, "", "", "", "", "", "", "", "", "", image,
		image, image, image, corev1.PullNever, nil, nil, verbosity, nil, false)
}
