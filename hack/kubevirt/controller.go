package kubevirt

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/hack/kube"
)

const controllerProgram = "virt-controller"

// StartController starts a stopped virt-controller, and returns when it is the leader and its
// caches are filled.
func (k *KubeVirt) StartController(ctx context.Context) error {
	port, err := kube.FreePort()
	if err != nil {
		return err
	}
	pair, err := k.servingPair(controllerProgram)
	if err != nil {
		return err
	}
	p, err := k.run(ctx, controllerProgram, controllerAccount, port,
		"--launcher-image="+cmp.Or(k.options.LauncherImage, "registry.test/virt-launcher"),
		// A launcher on an emulated node waits so long for its VM, in seconds. Default: 240.
		"--launcher-qemu-timeout=1200",
		// On a busy machine a renewal takes longer than the default of 10 s. The program then ends.
		"--leader-elect-lease-duration=90s", "--leader-elect-renew-deadline=60s",
		"--exporter-image=registry.test/virt-exportserver",
		"--prom-cert-file="+pair.certFile,
		"--prom-key-file="+pair.keyFile,
	)
	if err != nil {
		return err
	}
	if err := k.plane.AwaitOK(ctx, p, fmt.Sprintf("https://127.0.0.1:%d/leader", port),
		isLeader); err != nil {
		return err
	}
	k.controller = p
	return nil
}

// StopController ends virt-controller. VMs and migrations then keep their state until
// StartController.
func (k *KubeVirt) StopController(ctx context.Context) error {
	if err := k.controller.Stop(); err != nil {
		return err
	}
	k.controller = nil
	// virt-controller does not release its lease, and the next one would wait for it.
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace,
		Name: controllerProgram}}
	if err := k.admin.Delete(ctx, lease); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the lease of virt-controller: %w", err)
	}
	return nil
}

// run starts a program of KubeVirt with the rights of a service account.
func (k *KubeVirt) run(
	ctx context.Context, name, account string, port int, args ...string,
) (*kube.Process, error) {
	kubeconfig, err := k.plane.Kubeconfig(ctx, Namespace, account)
	if err != nil {
		return nil, err
	}
	common := []string{"--kubeconfig=" + kubeconfig, "--listen=127.0.0.1",
		"--port=" + strconv.Itoa(port)}
	return k.plane.Start(name, k.file(name), append(common, args...)...)
}

func isLeader(response *http.Response) bool {
	var status struct{ APIServer struct{ Leader string } }
	return json.NewDecoder(response.Body).Decode(&status) == nil &&
		status.APIServer.Leader == "true"
}
