package quota

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/cli/uninstall"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota"
)

// TestGitOpsUninstalled uninstalls Mooring while a migration has raised a quota from Git. The tool
// owns the limits afterwards, and its next sync can remove one.
func TestGitOpsUninstalled(t *testing.T) {
	c, p := startGuarded(t)
	tool := flux()
	m := &manifest{namespace: c.Namespace(t, nil), hard: full()}
	wantPass(t, tool.sync(t.Context(), c, m))
	awaitHard(t, c, m.namespace, kubevirttest.QuotaName, m.hard)
	_, r := charged(t, c, m.namespace)
	awaitHard(t, c, m.namespace, kubevirttest.QuotaName, plus(m.hard, r))

	p.stop(t)
	all, err := uninstall.NewClient(c.Plane.Config())
	wantPass(t, err)
	u := uninstall.Cluster{Client: all, Namespace: system,
		Quota: quota.Options{Prefix: quota.DefaultPrefix}, Force: true, Patience: time.Minute,
		Now: time.Now, Report: uninstall.Report{Print: func(line string) { t.Log(line) }}}
	wantPass(t, u.Run(t.Context()))
	awaitClean(t, c, m.namespace, kubevirttest.QuotaName, m.hard)
	awaitOwned(t, c, m, tool.manager)

	delete(m.hard, corev1.ResourceRequestsCPU)
	wantPass(t, tool.sync(t.Context(), c, m))
	awaitHard(t, c, m.namespace, kubevirttest.QuotaName, m.hard)
}
