package quota

import (
	"log/slog"
	"os"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/hack/kubevirt"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota"
)

// TestKubeVirtUpgrade upgrades KubeVirt from 1.7 to 1.9 below running VMs of a full namespace. The
// targets of the new virt-controller replace launchers of the old one, one VM after another, as in
// virt-operator's update of workloads. The controller runs all the time.
func TestKubeVirtUpgrade(t *testing.T) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	t.Setenv(kubevirt.EnvVersion, "1.7")
	c, err := kubevirttest.New(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stopping the cluster: %v", err)
		}
	})
	wantPass(t, c.KubeVirt.SetVersion(t.Context()))
	p := installServing(t, c)
	p.start(t)
	awaitKubeVirtServed(t, p, 1)
	ns := fillNamespace(t, c, 3)
	source := c.Launchers(t, ns.vmis[0])[0]

	t.Setenv(kubevirt.EnvVersion, "1.9")
	wantPass(t, c.KubeVirt.Upgrade(t.Context(), ""))
	for _, vmi := range ns.vmis {
		m := c.MigrateUntil(t, vmi, kubevirtv1.MigrationTargetReady)
		m.Await(t, kubevirtv1.MigrationTargetReady)
		to, from := quota.Charge(m.Target(t))["memory"], quota.Charge(&source)["memory"]
		t.Logf("the target requests %s, the source requested %s", &to, &from)
		m.GoOn(t)
		m.Await(t, kubevirtv1.MigrationSucceeded)
	}
	awaitClean(t, c, ns.name, kubevirttest.QuotaName, ns.base)
}
