// Command node-manifests prints the objects of virt-operator for virt-handler: its certificates
// with their authority, and its DaemonSet. Its argument is the image of virt-handler and virt-
// launcher.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
)

// namespace is KubeVirt's namespace.
const namespace = "kubevirt"

// validity is the life of the certificates. They are made for each cluster.
const validity = 7 * 24 * time.Hour

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "node-manifests:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return errors.New("want one argument: the image of virt-handler and virt-launcher")
	}
	objects, err := certificates()
	if err != nil {
		return err
	}
	for _, o := range append(objects, daemonSet(os.Args[1])) {
		doc, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		fmt.Printf("---\n%s", doc)
	}
	return nil
}

func certificates() ([]any, error) {
	life := &metav1.Duration{Duration: validity}
	ca := components.NewCACertSecrets(namespace)[0]
	if err := components.PopulateSecretWithCertificate(ca, nil, life); err != nil {
		return nil, err
	}
	authority, err := components.LoadCertificates(ca)
	if err != nil {
		return nil, err
	}
	var all []any
	for _, c := range components.NewCAConfigMaps(namespace) {
		if c.Name == components.KubeVirtCASecretName {
			c.Data = map[string]string{components.CABundleKey: string(ca.Data["tls.crt"])}
			all = append(all, c)
		}
	}
	for _, s := range components.NewCertSecrets(namespace, namespace) {
		if !strings.Contains(s.Name, components.VirtHandlerName) {
			continue
		}
		if err := components.PopulateSecretWithCertificate(s, authority, life); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}
