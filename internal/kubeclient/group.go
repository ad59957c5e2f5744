package kubeclient

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// NewGroupClient returns a client with this user agent for the resources of one API group, whose
// types add adds to a scheme.
func NewGroupClient(config *rest.Config, userAgent string, group schema.GroupVersion,
	add func(*runtime.Scheme) error) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := add(scheme); err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", group, err)
	}
	config = rest.AddUserAgent(rest.CopyConfig(config), userAgent)
	config.GroupVersion = &group
	config.APIPath = "/apis"
	config.ContentType = runtime.ContentTypeJSON // custom resources have no protobuf
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", group, err)
	}
	return client, nil
}
