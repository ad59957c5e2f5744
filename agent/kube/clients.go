package kube

import (
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/rest"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/internal/kubeclient"
)

const userAgent = "mooring-agent"

// Clients are the agent's clients, one for each API group. The clients of all groups
// (k8s.io/client-go/kubernetes) would take half of the program.
type Clients struct {
	Core   rest.Interface // pods and the Node
	Events rest.Interface // events.k8s.io/v1
	States rest.Interface // mooring.dev/v1alpha1
}

// NewClients returns the agent's clients. It sends no request.
func NewClients(config *rest.Config) (c Clients, err error) {
	c.Core, err = kubeclient.NewBuiltinClient(config, userAgent, corev1.SchemeGroupVersion,
		corev1.AddToScheme)
	if err != nil {
		return Clients{}, err
	}
	c.Events, err = kubeclient.NewBuiltinClient(config, userAgent, eventsv1.SchemeGroupVersion,
		eventsv1.AddToScheme)
	if err != nil {
		return Clients{}, err
	}
	c.States, err = kubeclient.NewGroupClient(config, userAgent, v1alpha1.GroupVersion(),
		v1alpha1.AddToScheme)
	return c, err
}
