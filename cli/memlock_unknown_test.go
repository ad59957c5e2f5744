package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

const (
	bindingVMI = `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, ` +
		`metadata: {name: a}, spec: {domain: {memory: {guest: 1Gi}, devices: {interfaces: ` +
		`[{name: red, binding: {name: vdpa}}]}}, networks: [{name: red, multus: ` +
		`{networkName: red}}]}}`
	hookVMI = `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: a, ` +
		`annotations: {hooks.kubevirt.io/hookSidecars: '[{"image": "example.org/nvme"}]'}}, ` +
		`spec: {domain: {devices: {}, memory: {guest: 1Gi}}}}`
	poolXML = `<domain type='kvm'><memory unit='GiB'>1</memory><devices>` +
		`<interface type='network'><source network='pool'/></interface></devices></domain>`
	iommufdXML = `<domain type='kvm'><memory unit='GiB'>1</memory>` +
		`<iommufd enabled='yes' fdgroup='iommu'/><devices><hostdev type='pci'><source>` +
		`<address bus='0x01' slot='0x00' function='0x0'/></source></hostdev></devices></domain>`
	argumentXML = `<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>` +
		`<memory unit='GiB'>1</memory><devices><interface type='vdpa'>` +
		`<source dev='/dev/vhost-vdpa-0'/></interface></devices><qemu:commandline>` +
		`<qemu:arg value='-device'/><qemu:arg value='vfio-pci,host=0000:01:00.0'/>` +
		`</qemu:commandline></domain>`
)

// Without the input that decides, memlock gives no confident number.
func TestMemlockWithAMissingInput(t *testing.T) {
	vmi := func(text string) []string {
		return []string{"--vmi", writeInput(t, "v.yaml", text), "--kubevirt-version", "1.9"}
	}
	domain := func(text string) []string {
		return []string{"--domain", writeInput(t, "d.xml", text)}
	}
	for name, c := range map[string]struct {
		args    []string
		verdict string
		text    string
	}{
		"binding plugin": {vmi(bindingVMI), "unknown",
			`unknown, because network binding plugin "vdpa"`},
		"binding plugin of a VM with a GPU": {vmi(strings.Replace(gpuVMI, "      gpus:",
			"      interfaces: [{name: red, binding: {name: vdpa}}]\n      gpus:", 1)), "unknown",
			`unknown, at least 5651825344 bytes (5.26 GiB), because network binding plugin "vdpa"`},
		"hook": {vmi(hookVMI), "unknown",
			`unknown, because hook sidecar "example.org/nvme"`},
		"pool of networks": {domain(poolXML), "unknown",
			`unknown, because network "pool"`},
		"argument of QEMU": {domain(argumentXML), "unknown",
			`unknown, at least 2Gi (2147483648 bytes), because libvirt does not count ` +
				`QEMU's argument "vfio-pci,host=0000:01:00.0"`},
		"iommufd of another program": {domain(iommufdXML), "unknown",
			"unknown, at least 2Gi (2147483648 bytes), because another program opened the iommufd"},
		"iommufd of virt-handler": {append(vmi(gpuVMI), domain(iommufdXML)...), "limit",
			"5651825344 bytes"},
		"the domain answers": {append(vmi(bindingVMI), domain(vdpaXML)...), "limit",
			"3Gi (3221225472 bytes)"},
		"nothing is missing": {vmi(plainVMI), "none needed", "none needed"},
		"limit":              {vmi(gpuVMI), "limit", "5651825344 bytes"},
		"unlimited":          {domain(lockedXML), "unlimited", "unlimited"},
	} {
		text, asJSON := runMemlock(t, c.args...), runMemlock(t, append(c.args, "-o", "json")...)
		limit, _ := strings.CutPrefix(text.out, "Limit:")
		if !strings.HasPrefix(strings.TrimSpace(limit), c.text) || text.code != ExitOK {
			t.Errorf("%s: %+v, want %q", name, text, c.text)
		}
		var out struct {
			Verdict string   `json:"verdict"`
			Unknown []string `json:"unknown"`
		}
		if err := json.Unmarshal([]byte(asJSON.out), &out); err != nil ||
			out.Verdict != c.verdict || out.Unknown == nil ||
			(len(out.Unknown) > 0) != (c.verdict == "unknown") {
			t.Errorf("%s: %v, verdict %q, want %q:\n%s", name, err, out.Verdict, c.verdict,
				asJSON.out)
		}
	}
}
