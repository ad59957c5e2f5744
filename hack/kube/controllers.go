package kube

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const controllerManager = "kube-controller-manager"

// StartControllers starts kube-controller-manager with only the named controllers, and returns when
// it answers. `kube-controller-manager --help` lists the names at --controllers. An unknown name is
// an error.
//
// Each call starts a process. Stop the first one before the next call.
func (c *ControlPlane) StartControllers(ctx context.Context, names ...string) (*Process, error) {
	return c.StartControllersWith(ctx, nil, names...)
}

// StartControllersWith is StartControllers with more flags of kube-controller-manager.
func (c *ControlPlane) StartControllersWith(
	ctx context.Context, flags []string, names ...string,
) (*Process, error) {
	kubeconfig, err := c.adminKubeconfig()
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	p, err := c.Start(controllerManager, c.program(controllerManager), append([]string{
		"--kubeconfig=" + kubeconfig,
		"--controllers=" + strings.Join(names, ","),
		"--leader-elect=false",
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--cert-dir=" + c.File("certificates"),
	}, flags...)...)
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("https://127.0.0.1:%d/healthz", port)
	if err := c.AwaitOK(ctx, p, url, nil); err != nil {
		return nil, err
	}
	return p, nil
}

// adminKubeconfig writes a kubeconfig with all rights.
func (c *ControlPlane) adminKubeconfig() (string, error) {
	return c.writeAdminKubeconfig("admin.kubeconfig", c.admin.Host)
}

// AdminKubeconfigFor writes a kubeconfig with all rights and another address of the API server, and
// returns its path. Its credentials do not expire during a test.
func (c *ControlPlane) AdminKubeconfigFor(server string) (string, error) {
	return c.writeAdminKubeconfig("admin-elsewhere.kubeconfig", server)
}

func (c *ControlPlane) writeAdminKubeconfig(file, server string) (string, error) {
	path := c.File(file)
	const name = "admin"
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			name: {Server: server, CertificateAuthorityData: c.admin.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			name: {ClientCertificateData: c.admin.CertData, ClientKeyData: c.admin.KeyData},
		},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, path)
	if err != nil {
		return "", fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return path, nil
}

// FreePort is a port of the loopback address that was free a moment ago.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// AwaitOK returns when the program answers url with status 200, and accept, unless nil, returns
// true. It accepts any certificate. If the program ends, or does not answer before startTimeout,
// AwaitOK stops it and returns an error with the ends of all logs.
func (c *ControlPlane) AwaitOK(
	ctx context.Context, p *Process, url string, accept func(*http.Response) bool,
) error {
	client, err := rest.HTTPClientFor(
		&rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true,
		func(ctx context.Context) (bool, error) {
			select {
			case <-p.Exited():
				return false, exit(p.err)
			default:
				return answers(ctx, client, url, accept), nil
			}
		})
	if err != nil {
		_ = p.Stop()
		return fmt.Errorf("starting %s: %w\n%s", p.name, err, c.tails())
	}
	return nil
}

func answers(
	ctx context.Context, client *http.Client, url string, accept func(*http.Response) bool,
) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK && (accept == nil || accept(response))
}
