package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/cli"
)

const growable = "<domain type='kvm'><memory unit='GiB'>1</memory><vcpu>2</vcpu><os><type " +
	"arch='x86_64' machine='q35'>hvm</type></os>" +
	"<features><acpi/></features><devices></devices></domain>"

// Pods get the policy's capacities even before they have a launcher. So does `mooring domain
// prepare` on the node.
func TestHeadroomOfThePolicy(t *testing.T) {
	config := testConfig(t)
	text := testPolicy + "headroom: {memoryCapacity: 4Gi, cpuCapacity: 8}\n"
	if err := os.WriteFile(config.Policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := start(t, config)
	if _, err := a.podDirs.Create("uid-vm"); err != nil {
		t.Fatal(err)
	}
	want := podapi.Headroom{Memory: 4 << 30, CPUs: 8}
	if got, err := a.client(t, "uid-vm").Headroom(t.Context()); got != want || err != nil {
		t.Errorf("the pod gets %+v, %v, want %+v", got, err, want)
	}
	file := filepath.Join(t.TempDir(), "vm.xml")
	if err := os.WriteFile(file, []byte(growable), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := a.mooring("domain", "prepare", file)
	if code != cli.ExitOK || !strings.Contains(out, "current='2'>8</vcpu>") ||
		!strings.Contains(out, "<size unit='KiB'>3145728</size>") {
		t.Errorf("mooring domain prepare: %d\n%s%s", code, out, errOut)
	}
	if code, out, errOut := a.mooring("domain", "prepare", "--memory-capacity", "2048",
		file); code != cli.ExitOK || !strings.Contains(out, "<size unit='KiB'>1048576</size>") {
		t.Errorf("mooring domain prepare --memory-capacity 2048: %d\n%s%s", code, out, errOut)
	}
}
