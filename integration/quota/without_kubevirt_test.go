package quota

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// TestKubeVirtComesLater starts the controller in a cluster without KubeVirt. The controller is
// ready and serves its webhooks. After KubeVirt's installation it raises quotas, without a restart.
func TestKubeVirtComesLater(t *testing.T) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	c, err := kubevirttest.NewWithoutKubeVirt(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stopping the cluster: %v", err)
		}
	})
	p := installServing(t, c)
	p.start(t)
	awaitKubeVirtServed(t, p, 0)
	eventually(t, "the API server to call the webhooks", func() error {
		return checkWebhooksCalled(t.Context(), c, "default")
	})

	if err := c.InstallKubeVirt(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	awaitKubeVirtServed(t, p, 1)
	base := list("pods", "1")
	namespace := c.Namespace(t, base)
	vmi := c.RunningVMI(t, namespace, "vm", kubevirttest.Size{Cores: 1, Memory: "512Mi"})
	m := c.MigrateUntil(t, vmi, kubevirtv1.MigrationTargetReady)
	m.Await(t, kubevirtv1.MigrationTargetReady)
	awaitHard(t, c, namespace, kubevirttest.QuotaName, list("pods", "2"))
	m.GoOn(t)
	m.Await(t, kubevirtv1.MigrationSucceeded)
	awaitClean(t, c, namespace, kubevirttest.QuotaName, base)
}

// awaitKubeVirtServed returns when the controller's metric has this value.
func awaitKubeVirtServed(t *testing.T, p *program, value int) {
	t.Helper()
	line := fmt.Sprintf("\nmooring_quota_kubevirt_served %d\n", value)
	eventually(t, "the metric about KubeVirt", func() error {
		text, err := p.get(t.Context(), "/metrics")
		if err == nil && !strings.Contains(text, line) {
			err = fmt.Errorf("no line %q", strings.TrimSpace(line))
		}
		return err
	})
}
