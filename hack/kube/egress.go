package kube

import (
	"fmt"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// egressConfig makes kube-apiserver reach kubelets and webhooks of Services by a proxy. The
// formatted argument is the path of its socket.
const egressConfig = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds:
        udsName: %q
`

// useProxy writes the configuration to file. kube-apiserver connects to the pods of a Service,
// because its address exists only on nodes with kube-proxy. It connects to a kubelet's address,
// because a node may not know its own name.
func useProxy(server *envtest.APIServer, file, socket string) error {
	if err := os.WriteFile(file, fmt.Appendf(nil, egressConfig, socket), 0o600); err != nil {
		return err
	}
	server.Configure().
		Set("egress-selector-config-file", file).
		Set("enable-aggregator-routing", "true").
		Set("kubelet-preferred-address-types", "InternalIP")
	return nil
}
