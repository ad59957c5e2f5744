package kubeclient

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// NewGroupClient returns a client with this user agent for the resources of one API group, whose
// types add adds to a scheme. It speaks JSON, because custom resources have no protobuf.
func NewGroupClient(config *rest.Config, userAgent string, group schema.GroupVersion,
	add func(*runtime.Scheme) error) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeJSON
	return newGroupClient(config, userAgent, group, add)
}

// NewBuiltinClient is NewGroupClient for a group of Kubernetes itself. It speaks protobuf, which
// costs client and API server less time than JSON.
func NewBuiltinClient(config *rest.Config, userAgent string, group schema.GroupVersion,
	add func(*runtime.Scheme) error) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.ContentType = runtime.ContentTypeProtobuf
	return newGroupClient(config, userAgent, group, add)
}

func newGroupClient(config *rest.Config, userAgent string, group schema.GroupVersion,
	add func(*runtime.Scheme) error) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := add(scheme); err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", group, err)
	}
	config = rest.AddUserAgent(config, userAgent)
	config.GroupVersion = &group
	config.APIPath = "/apis"
	if group.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", group, err)
	}
	return client, nil
}
