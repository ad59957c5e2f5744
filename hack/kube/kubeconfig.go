package kube

import (
	"context"
	"fmt"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig returns the path of a new kubeconfig file for a service account. As in a pod, its
// token is valid for an hour, and RBAC limits it. Stop removes the file.
func (c *ControlPlane) Kubeconfig(
	ctx context.Context, namespace, serviceAccount string,
) (string, error) {
	return c.kubeconfig(ctx, namespace, serviceAccount, nil)
}

// KubeconfigOn is Kubeconfig with a token that is bound to a node, as in a pod of this node.
func (c *ControlPlane) KubeconfigOn(
	ctx context.Context, namespace, serviceAccount string, node *corev1.Node,
) (string, error) {
	return c.kubeconfig(ctx, namespace, serviceAccount, &authenticationv1.BoundObjectReference{
		Kind: "Node", APIVersion: "v1", Name: node.Name, UID: node.UID})
}

func (c *ControlPlane) kubeconfig(
	ctx context.Context, namespace, serviceAccount string,
	bound *authenticationv1.BoundObjectReference,
) (string, error) {
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return "", err
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, serviceAccount,
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound},
		}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token of service account %s/%s: %w", namespace,
			serviceAccount, err)
	}
	file := namespace + "_" + serviceAccount
	if bound != nil {
		file += "_" + bound.Name
	}
	path := filepath.Join(c.temp.Dir, file+".kubeconfig")
	const name = "test"
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			name: {Server: c.admin.Host, CertificateAuthorityData: c.admin.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {Token: token.Status.Token}},
		Contexts: map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name,
			Namespace: namespace}},
		CurrentContext: name,
	}, path)
	if err != nil {
		return "", fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return path, nil
}
