package vmi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/memlock/kubevirt"
)

const (
	mi = 1 << 20
	gi = 1 << 30
)

// full has a value in every field of a VM.
const full = `
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: full, namespace: default, labels: {a: b}}
spec:
  architecture: arm64
  livenessProbe: {exec: {command: ["true"]}}
  readinessProbe: {exec: {command: ["true"]}}
  volumes:
  - {name: metrics, downwardMetrics: {}}
  networks:
  - {name: a, pod: {vmNetworkCIDR: 10.0.2.0/24}}
  domain:
    memory:
      guest: 1.5Gi
      maxGuest: 4Gi
      hugepages: {pageSize: 2Mi}
      reservedOverhead: {addedOverhead: 300M, memLock: Required}
    cpu: {sockets: 2, cores: 3, threads: 4, dedicatedCpuPlacement: true, realtime: {}}
    resources:
      requests: {memory: 1G, cpu: 500m}
      limits: {memory: 2G, cpu: 2.5}
    launchSecurity: {sev: {}, snp: {}}
    devices:
      autoattachGraphicsDevice: false
      tpm: {}
      hostDevices:
      - {name: a, deviceName: example.com/a}
      gpus:
      - {name: b, deviceName: example.com/b}
      - {name: c, deviceName: example.com/b}
      interfaces:
      - {name: a, passt: {}, dhcpOptions: {bootFileName: x}}
      - {name: b, sriov: {}}
`

var fullVM = kubevirt.VM{
	Memory: kubevirt.Memory{
		Request: 1e9, Limit: 2e9, Guest: 3 * gi / 2, MaxGuest: 4 * gi, HugePage: 2 * mi,
		AddedOverhead: 3e8, LockRequired: true,
	},
	CPU: kubevirt.CPU{Sockets: 2, Cores: 3, Threads: 4, RequestMilli: 500,
		LimitMilli: 2500, Dedicated: true, Realtime: true},
	Architecture: "arm64", NoGraphics: true, TPM: kubevirt.EnabledTPM, HostDevices: 1, GPUs: 2,
	SRIOV: 1, Passt: 1, SEV: true, SNP: true,
	DownwardMetrics: true, LivenessExec: true, ReadinessExec: true,
}

func TestRead(t *testing.T) {
	asJSON, err := yaml.YAMLToJSON([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	_, spec, _ := strings.Cut(full, "spec:")
	indented := "spec:" + strings.ReplaceAll(strings.TrimRight(spec, "\n"), "\n", "\n    ")
	asVM := "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: full}\nspec:\n  " +
		"runStrategy: Always\n  template:\n    metadata: {labels: {a: b}}\n    " + indented
	for name, text := range map[string]string{
		"YAML": full, "JSON": string(asJSON),
		"no kind":        strings.Replace(full, "kind: VirtualMachineInstance\n", "", 1),
		"document marks": "---\n" + full + "---\n", "VirtualMachine": asVM,
	} {
		got, err := Read([]byte(text))
		want := fullVM
		want.Template = name == "VirtualMachine"
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
}

func TestReadParts(t *testing.T) {
	for text, want := range map[string]kubevirt.VM{
		"spec: {}": {},
		"status: {newer: {than: this}}\nspec: {domain: {devices: {}}}":                                             {},
		"spec: {domain: {devices: {tpm: {enabled: true}}}}":                                                        {TPM: kubevirt.EnabledTPM},
		"spec: {domain: {devices: {tpm: {enabled: false}}}}":                                                       {TPM: kubevirt.DisabledTPM},
		"spec: {domain: {devices: {autoattachGraphicsDevice: true}}}":                                              {},
		"spec: {domain: {devices: {downwardMetrics: {}}}}":                                                         {},
		"spec: {domain: {devices: {interfaces: [{name: a, passt: {}, ports: [{port: 1}]}]}}}":                      {},
		"spec: {domain: {devices: {}, launchSecurity: {tdx: {}}}}":                                                 {},
		"spec: {domain: {devices: {}, memory: {guest: 1000000001m}}}":                                              {Memory: kubevirt.Memory{Guest: 1000001}},
		"spec: {domain: {devices: {}, memory: {guest: 1e9}}}":                                                      {Memory: kubevirt.Memory{Guest: 1e9}},
		"spec: {domain: {devices: {}, memory: {guest: 4096}}}":                                                     {Memory: kubevirt.Memory{Guest: 4096}},
		"spec: {domain: {devices: {}, memory: {reservedOverhead: {addedOverhead: 0, memLock: NotRequired}}}}":      {},
		"spec: {domain: {devices: {}, resources: {requests: {cpu: 0}, limits: {cpu: 333333u}}}}":                   {CPU: kubevirt.CPU{LimitMilli: 334}},
		"spec: {domain: {devices: {}, resources: {requests: {cpu: 2, memory: 1Gi, example.com/a: 1}}}}":            {CPU: kubevirt.CPU{RequestMilli: 2000}, Memory: kubevirt.Memory{Request: gi}},
		"spec: {livenessProbe: {tcpSocket: {port: 1}}, domain: {devices: {}, cpu: {model: host-passthrough}}}":     {},
		"status: {phase: Running, memory: {guestAtBoot: 1Gi}}\nspec: {domain: {devices: {}, memory: {guest: 1k}}}": {Memory: kubevirt.Memory{Guest: 1000}},
	} {
		got, err := Read([]byte(text))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", text, err, diff)
		}
	}
}

// Binding plugins and hooks of other programs change the domain.
func TestReadHooksAndPlugins(t *testing.T) {
	const hooks = "metadata: {annotations: {hooks.kubevirt.io/hookSidecars: '%s'}}\n"
	for name, c := range map[string]struct{ text, plugins, hooks string }{
		"none":            {"spec: {domain: {devices: {interfaces: [{name: a}]}}}", "", ""},
		"plugin":          {interfaces("vdpa"), `"vdpa"`, ""},
		"several plugins": {interfaces("vdpa", "passt", "vdpa"), `"passt", "vdpa"`, ""},
		"image":           {fmt.Sprintf(hooks, `[{"image": "a"}, {"image": "b"}]`), "", `"a", "b"`},
		"ConfigMap":       {fmt.Sprintf(hooks, `[{"configMap": {"name": "c"}}]`), "", `"c"`},
		"no image":        {fmt.Sprintf(hooks, `[{"args": []}]`), "", `"no image"`},
		"Mooring's": {fmt.Sprintf(hooks,
			`[{"image": "a", "command": ["/usr/bin/mooring-shim", "hook"]}]`), "", ""},
		"unreadable": {fmt.Sprintf(hooks, "[{"), "", `"[{"`},
		"of a VirtualMachine": {"kind: VirtualMachine\nspec: {template: {metadata: {annotations: " +
			`{hooks.kubevirt.io/hookSidecars: '[{"image": "a"}]'}}, spec: {}}}`, "", `"a"`},
	} {
		got, err := Read([]byte(c.text))
		if err != nil || got.Plugins != c.plugins || got.Hooks != c.hooks {
			t.Errorf("%s: %q, %q, %v, want %q and %q", name, got.Plugins, got.Hooks, err,
				c.plugins, c.hooks)
		}
	}
}

// interfaces returns a VMI with an interface for each network binding plugin.
func interfaces(plugins ...string) string {
	var list strings.Builder
	for _, p := range plugins {
		fmt.Fprintf(&list, "{name: %s, binding: {name: %[1]s}}, ", p)
	}
	return fmt.Sprintf("spec: {domain: {devices: {interfaces: [%s]}}}", &list)
}

// Each error names the field, its value and the allowed values.
func TestReadErrors(t *testing.T) {
	for text, want := range map[string]string{
		"": "want a VirtualMachineInstance or a " +
			"VirtualMachine",
		"# nothing\n---\n": "want a VirtualMachineInstance or a " +
			"VirtualMachine",
		"a: [":   "VM: no valid YAML",
		"[1, 2]": "VM: want a mapping",
		"text":   "VM: want a mapping",
		"kind: Pod": `kind: "Pod": want VirtualMachineInstance or ` +
			`VirtualMachine`,
		"kind: ''": `kind: "": want VirtualMachineInstance or ` +
			`VirtualMachine`,
		"kind: 4":        "kind: number: want a text",
		"apiVersion: v1": `apiVersion: "v1": want kubevirt.io/v1`,
		full + "---\n" + full: "VM: the file has more than one YAML document: " +
			"want one",
		"spec: 4":                                                                           "spec: number: want a mapping",
		"spec: {domain: {cpus: 1}}":                                                         "spec.domain.cpus: unknown field",
		"spec: {domain: {CPU: {}}}":                                                         "spec.domain.CPU: unknown field",
		"spec: {domain: {devices: {gpus: {}}}}":                                             "spec.domain.devices.gpus: object: want a list",
		"spec: {domain: {cpu: {cores: two}}}":                                               "spec.domain.cpu.cores: string: want a whole number from 0 on",
		"spec: {domain: {cpu: {cores: -2}}}":                                                "spec.domain.cpu.cores: number -2: want a whole number from 0 on",
		"spec: {domain: {cpu: {model: 4}}}":                                                 "spec.domain.cpu.model: number: want a text",
		"spec: {domain: {devices: {autoattachGraphicsDevice: maybe}}}":                      "autoattachGraphicsDevice: string: want true or false",
		"spec: {domain: {memory: {guest: 1Gi, guest: 2Gi}}}":                                `key "guest" already set`,
		`{"spec": {"domain": {"memory": {"guest": "1Gi", "guest": "2Gi"}}}}`:                `key "guest" already set`,
		"spec: {domain: {memory: {guest: 4GB}}}":                                            `spec.domain.memory.guest: "4GB": want a quantity such as 4Gi`,
		"spec: {domain: {memory: {maxGuest: []}}}":                                          `spec.domain.memory.maxGuest: []: want a quantity`,
		"spec: {domain: {resources: {requests: {memory: lots}}}}":                           `spec.domain.resources.requests.memory: "lots": want a quantity`,
		"spec: {domain: {resources: {limits: {cpu: 1 2}}}}":                                 `spec.domain.resources.limits.cpu: "1 2": want a quantity`,
		"spec: {domain: {memory: {reservedOverhead: {addedOverhead: x}}}}":                  `addedOverhead: "x": want a quantity`,
		"spec: {domain: {memory: {guest: -4Gi}}}":                                           `spec.domain.memory.guest: "-4Gi": want more than 0`,
		"spec: {domain: {memory: {guest: 100m}}}":                                           `spec.domain.memory.guest: "100m": want whole bytes: the unit m is a thousandth`,
		"spec: {domain: {resources: {requests: {memory: 1500m}}}}":                          `spec.domain.resources.requests.memory: "1500m": want whole bytes`,
		"spec: {domain: {memory: {reservedOverhead: {requiresLock: true}}}}":                `reservedOverhead.requiresLock: unknown field: not in the API of KubeVirt 1.9.0; KubeVirt's word for VEP 144's requiresLock is memLock: Required`,
		"spec: {domain: {memory: {reservedOverhead: {value: 1Gi}}}}":                        `reservedOverhead.value: unknown field: not in the API of KubeVirt 1.9.0; KubeVirt's word for VEP 144's value is addedOverhead`,
		"spec: {domain: {memory: {guest: 0}}}":                                              `spec.domain.memory.guest: "0": want more than 0`,
		"spec: {domain: {memory: {guest: 8Ei}}}":                                            "spec.domain.memory.guest: \"9223372036854775807\": want less than",
		"spec: {domain: {memory: {guest: 4Gi, maxGuest: 2Gi}}}":                             `spec.domain.memory.guest: "4Gi": want at most memory.maxGuest, which is 2Gi`,
		"spec: {domain: {memory: {hugepages: {pageSize: big}}}}":                            `spec.domain.memory.hugepages.pageSize: "big": want a size such as 2Mi or 1Gi`,
		"spec: {domain: {memory: {hugepages: {}}}}":                                         `spec.domain.memory.hugepages.pageSize: "": want a size`,
		"spec: {domain: {memory: {reservedOverhead: {addedOverhead: -1}}}}":                 `addedOverhead: "-1": want more than 0`,
		"spec: {domain: {memory: {reservedOverhead: {memLock: maybe}}}}":                    `memLock: "maybe": want Required or NotRequired`,
		"spec: {domain: {resources: {requests: {memory: -1}}}}":                             `spec.domain.resources.requests.memory: "-1": want more than 0`,
		"spec: {domain: {resources: {requests: {cpu: -1}}}}":                                `spec.domain.resources.requests.cpu: "-1": want more than 0`,
		"spec: {domain: {resources: {limits: {cpu: 0}}}}":                                   `spec.domain.resources.limits.cpu: "0": want more than 0`,
		"spec: {architecture: x86_64}":                                                      `spec.architecture: "x86_64": want amd64, arm64, s390x or ppc64le`,
		"spec: {networks: [{name: a, pod: {cidr: x}}]}":                                     "spec.networks[0].pod.cidr: unknown field",
		"spec: {domain: {devices: {interfaces: [{name: a, dhcpOptions: {x: y}}]}}}":         "spec.domain.devices.interfaces[0].dhcpOptions.x: unknown field",
		"apiVersion: v1\nkind: List\nitems: []":                                             `kind: "List": want one object: kubectl get vmi NAME -o yaml`,
		"kind: VirtualMachine\nspec: {}":                                                    "spec.template: missing",
		"kind: VirtualMachine\nspec: {domain: {}}":                                          "spec.domain: unknown field",
		"kind: VirtualMachine\nspec: {template: {spec: {domain: {x: 1}}}}":                  "spec.template.spec.domain.x: unknown field",
		"kind: VirtualMachine\nspec: {template: {spec: {domain: {memory: {guest: x}}}}}":    `spec.template.spec.domain.memory.guest: "x": want a quantity`,
		"kind: VirtualMachine\nspec: {template: {spec: {domain: {memory: {guest: -1}}}}}":   `spec.template.spec.domain.memory.guest: "-1": want`,
		"kind: VirtualMachine\nspec: {template: {spec: {domain: {cpu: {cores: x}}}}}":       "spec.template.spec.domain.cpu.cores: string: want",
		"kind: VirtualMachine\nspec: {template: {spec: {}}, instancetype: {name: u1.tiny}}": `spec.instancetype: "u1.tiny": another object`,
		"kind: VirtualMachine\nspec: {template: {spec: {}}, preference: {name: fedora}}":    `spec.preference: "fedora": another object`,
		strings.Repeat(" ",
			MaxSize+1): "more than 2097152 bytes",
	} {
		got, err := Read([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || got != (kubevirt.VM{}) {
			t.Errorf("%.200s: %+v, %v, want %s", text, got, err, want)
		}
	}
}

func TestFromVMI(t *testing.T) {
	var object v1.VirtualMachineInstance
	if err := yaml.Unmarshal([]byte(full), &object); err != nil {
		t.Fatal(err)
	}
	if got, err := FromVMI(&object); got != fullVM || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := FromVMI(nil); got != (kubevirt.VM{}) || err == nil {
		t.Errorf("nil: %+v, %v", got, err)
	}
	if got, err := FromVMI(&v1.VirtualMachineInstance{}); got != (kubevirt.VM{}) || err != nil {
		t.Errorf("empty: %+v, %v", got, err)
	}
}

// Each text gives an overhead or an error, and no panic.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		full, "spec: {domain: {devices: {}, memory: {guest: 4Gi}}}", "kind: VirtualMachine\n" +
			"spec: {template: {spec: {domain: {}}}}", "[", "a: &a [*a]", "---\n---\n",
		`{"spec":{"domain":{"memory":{"guest":"8Ei","reservedOverhead":{"addedOverhead":"1m"}},"cpu":{"sockets":4294967295}}}}`,
		"spec: {networks: [{pod: 4}], domain: {devices: {interfaces: [{dhcpOptions: []}]}}}",
		"spec: null", "kind: null", "spec: {domain: null}",
	} {
		f.Add([]byte(seed))
	}
	version, err := kubevirt.ParseVersion("1.6.3")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		vm, err := Read(data)
		if err != nil {
			if vm != (kubevirt.VM{}) {
				t.Errorf("%+v with %v", vm, err)
			}
			return
		}
		if err := vm.Check(); err != nil {
			t.Errorf("read %+v: %v", vm, err)
		}
		if result, err := kubevirt.Limit(vm, version, kubevirt.Ratio{}); err == nil &&
			result.Bytes < 0 {
			t.Errorf("%+v: %d", vm, result.Bytes)
		}
	})
}
