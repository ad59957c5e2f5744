package kube

import (
	"context"
	"fmt"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
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
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return "", err
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).
		CreateToken(ctx, serviceAccount, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token of service account %s/%s: %w", namespace,
			serviceAccount, err)
	}
	path := filepath.Join(c.temp.Dir, namespace+"_"+serviceAccount+".kubeconfig")
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
