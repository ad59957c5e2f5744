// Package kubeclient makes Kubernetes clients from a kubeconfig or a service account.
package kubeclient

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// InCluster as a kubeconfig path stands for the service account of the program's pod.
const InCluster = "in-cluster"

// LoadConfig reads the kubeconfig file at path. For [InCluster] it reads the service account
// of the program's pod.
func LoadConfig(path string) (*rest.Config, error) {
	if path == InCluster {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("read the pod's service account: %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", path, err)
	}
	return config, nil
}
