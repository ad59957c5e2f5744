package kube

const scheduler = "kube-scheduler"

// StartScheduler starts kube-scheduler.
func (c *ControlPlane) StartScheduler() (*Process, error) {
	kubeconfig, err := c.adminKubeconfig()
	if err != nil {
		return nil, err
	}
	return c.Start(scheduler, c.program(scheduler), "--kubeconfig="+kubeconfig,
		"--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port=0")
}
