package quota

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/cli"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// testStatus runs `mooring quota status` during a migration.
func testStatus(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, full())
	m, r := charged(t, c, ns)
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(full(), r))
	var out, errOut bytes.Buffer
	program := cli.Program{Name: "mooring", Out: &out, ErrOut: &errOut, Now: time.Now}
	args := []string{"quota", "status", ns, "-o", "json", "--kubeconfig",
		c.Plane.File("admin.kubeconfig")}
	if code := program.Run(t.Context(), args); code != 0 {
		t.Fatalf("exit code %d: %s", code, &errOut)
	}
	var status struct {
		Quotas []struct {
			Name      string
			Resources []struct{ Name, Base, Reserved, Hard, Used string }
		}
		Migrations []struct{ VM, Migration, State, Phase string }
		KubeVirt   struct {
			Object   string
			Settings []struct{ Name, Value string }
		}
		Faults, Notes []any
	}
	if err := json.Unmarshal(out.Bytes(), &status); err != nil {
		t.Fatal(err)
	}
	if len(status.Quotas) != 1 || len(status.Migrations) != 1 ||
		len(status.KubeVirt.Settings) == 0 || len(status.Faults)+len(status.Notes) > 0 {
		t.Fatalf("got %s", &out)
	}
	hard := plus(full(), r)
	for _, of := range status.Quotas[0].Resources {
		want, base := hard[corev1.ResourceName(of.Name)], full()[corev1.ResourceName(of.Name)]
		if got := resource.MustParse(of.Hard); got.Cmp(want) != 0 {
			t.Errorf("hard of %s is %s, want %s", of.Name, of.Hard, &want)
		}
		if got := resource.MustParse(of.Base); got.Cmp(base) != 0 {
			t.Errorf("base of %s is %s, want %s", of.Name, of.Base, &base)
		}
	}
	got := status.Migrations[0]
	if got.VM != "vm" || got.Migration != m.Get(t).Name ||
		got.State != string(virtv1.MigrationPreparingTarget) || got.Phase != "Charged" {
		t.Errorf("migration %+v", got)
	}
	m.GoOn(t)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
}
