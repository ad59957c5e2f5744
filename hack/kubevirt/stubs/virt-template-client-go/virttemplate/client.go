// Package virttemplate replaces the client of KubeVirt's templates of VMs (see virt-template-api).
package virttemplate

import (
	"errors"

	"k8s.io/client-go/rest"
)

// Clientset is a client. There is none.
type Clientset struct{}

// Client is the client of a version.
type Client struct{}

// NewForConfig returns an error.
func NewForConfig(*rest.Config) (*Clientset, error) {
	return nil, errors.New("built without templates of VMs")
}

// TemplateV1beta1 is the client of v1beta1.
func (*Clientset) TemplateV1beta1() *Client { return nil }

// RESTClient is the transport of the client.
func (*Client) RESTClient() rest.Interface { return nil }
