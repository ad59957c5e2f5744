// Package clientset makes clients for all API groups of Kubernetes. Their code and types add 27 MB
// to a program. The agent therefore has clients of single groups.
package clientset

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// New returns a client with this user agent. It speaks protobuf, which costs client and API server
// less time than JSON.
func New(config *rest.Config, userAgent string) (kubernetes.Interface, error) {
	config = rest.AddUserAgent(rest.CopyConfig(config), userAgent)
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a Kubernetes client: %w", err)
	}
	return client, nil
}
