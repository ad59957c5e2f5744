package decide_test

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/decide/decidetest"
)

type refusalTest struct {
	facts  decide.Facts
	reason agentapi.Reason
	text   []string // parts of the message
}

func refusalTests() map[string]refusalTest {
	file := func(name string) string { return name + api.CgroupSuffix }
	noLimit := facts("trusted", decidetest.UnlimitedLock())
	noLimit.MemoryLimit = 0
	ociNoLimit := noLimit
	ociNoLimit.MemoryLimit = -1
	nothing := facts("trusted", map[string]string{api.RequiresLockKey: "true"})
	nothing.MemoryLimit = 0
	hugePages := withGranted(facts("trusted", decidetest.VFIO()), 60*gi)
	hugePages.HugePages = 4 * gi
	noBound := withGranted(facts("trusted", decidetest.VFIO()), 60*gi)
	noBound.MemoryLimit = 0
	badLauncher := facts("trusted", map[string]string{api.LauncherKey: "Not A Name"})
	badLauncher.Labels = decidetest.LauncherLabels()
	beyond := noLimit
	beyond.MemoryLimit, beyond.NodeMemory = 65*gi, 64*gi
	noHugetlb := facts("trusted", map[string]string{file("hugetlb.2MB.max"): "1Gi"})
	noHugetlb.Controllers = []string{"cpu", "memory"}
	return map[string]refusalTest{
		"more than the rule allows": {
			facts("tenant-a", map[string]string{api.GuestMemoryKey: "32Gi",
				api.DevicesKey: "vfio=1"}),
			agentapi.ReasonMemlockRefused,
			[]string{
				api.GuestMemoryKey + `: "32Gi"`, api.DevicesKey + `: "vfio=1"`,
				"memory lock of 33Gi",
				"guest memory 32Gi + libvirt's allowance for device I/O 1Gi", `"tenants"`, "16Gi",
				"policy changed",
			},
		},
		"a resized VM needs more than the rule allows": {
			facts("tenant-a", map[string]string{api.GuestMemoryKey: "4Gi",
				api.ResizeMemoryKey: "32Gi", api.DevicesKey: "vfio=1"}),
			agentapi.ReasonMemlockRefused,
			[]string{
				api.GuestMemoryKey + `: "4Gi"`, api.ResizeMemoryKey + `: "32Gi"`,
				"memory lock of 33Gi", `"tenants"`, "up to 16Gi",
				"without " + api.ResizeMemoryKey + " the lock is 5Gi, which the policy allows",
			},
		},
		"a resize is not the reason": {
			facts("tenant-a", map[string]string{api.GuestMemoryKey: "17Gi",
				api.ResizeMemoryKey: "32Gi", api.DevicesKey: "vfio=1"}),
			agentapi.ReasonMemlockRefused,
			[]string{api.ResizeMemoryKey + `: "32Gi"`, "memory lock of 33Gi", "policy changed"},
		},
		"unlimited where the rule has none": {
			facts("tenant-a", decidetest.UnlimitedLock()),
			agentapi.ReasonMemlockRefused, []string{api.ValueKey + `: "unlimited"`, `"tenants"`,
				"no unlimited", "16Gi"},
		},
		"unlimited without a memory limit": {
			noLimit, agentapi.ReasonMemlockRefused, []string{"unlimited", `rule "trusted"`,
				`container "compute" has none`, "resources.limits.memory"},
		},
		"unlimited with the runtime's notion of no limit": {
			ociNoLimit, agentapi.ReasonMemlockRefused, []string{"resources.limits.memory"},
		},
		"unlimited with a memory limit beyond the node's memory": {
			beyond, agentapi.ReasonMemlockRefused, []string{`rule "trusted"`, "one of 65Gi",
				"node's memory of 64Gi", "resources.limits.memory"},
		},
		"scoped annotation": {
			facts("tenant-a", map[string]string{
				api.RequiresLockKey + "/pod": "true", api.GuestMemoryKey: "1Gi",
				api.GuestMemoryKey + "/container.compute": "17408Mi",
			}),
			agentapi.ReasonMemlockRefused,
			[]string{api.RequiresLockKey + `/pod: "true"`,
				api.GuestMemoryKey + `/container.compute: "17408Mi"`, "17Gi"},
		},
		"cgroup file as it was written": {
			facts("nowhere", map[string]string{file("memory.high") + "/pod": "64Gi"}),
			agentapi.ReasonCgroupRefused,
			[]string{"annotation " + file("memory.high") + `/pod: "64Gi"`, "no rule"},
		},
		"cgroup file that the rule does not list, as it was written": {
			facts("tenant-a", map[string]string{file("memory.low") + "/container.compute": "64Gi"}),
			agentapi.ReasonCgroupRefused,
			[]string{"annotation " + file("memory.low") + `/container.compute: "64Gi"`,
				`"tenants"`},
		},
		"many faults": {
			facts("tenant-a", manyFiles()), agentapi.ReasonCgroupRefused,
			[]string{"; also: and 2 more"},
		},
		"no rule for the namespace": {
			facts("nowhere", decidetest.VFIO()), agentapi.ReasonMemlockRefused,
			[]string{"memory lock of 5Gi", `namespace "nowhere"`, "have a rule added"},
		},
		"service account that no rule names": {
			withAccount(facts("accounts", decidetest.VFIO()), "default"),
			agentapi.ReasonMemlockRefused,
			[]string{`namespace "accounts"`, `service account "default"`},
		},
		"service account that is not known": {
			facts("accounts", decidetest.VFIO()), agentapi.ReasonMemlockRefused,
			[]string{`"by-account"`, "not known"},
		},
		"one byte more than fits the node": {
			withGranted(facts("trusted", decidetest.VFIO()), 62*gi+1),
			agentapi.ReasonMemlockRefused,
			[]string{`rule "trusted"`, "memlock.nodeMax", "64Gi", "others have",
				"counts with 2Gi, its memory limit and huge pages", "elsewhere"},
		},
		"one byte more with an unlimited lock": {
			withGranted(facts("trusted", decidetest.UnlimitedLock()), 62*gi+1),
			agentapi.ReasonMemlockRefused, []string{"memlock.nodeMax", "counts with 2Gi"},
		},
		"huge pages do not fit the node": {
			hugePages, agentapi.ReasonMemlockRefused, []string{"memlock.nodeMax", "counts with 6Gi"},
		},
		"no memory limit, and more than fits the node": {
			noBound, agentapi.ReasonMemlockRefused,
			[]string{"memlock.nodeMax", "counts with 5Gi, its memory lock, for want of a memory " +
				"limit"},
		},
		"nothing to compute from": {
			nothing, agentapi.ReasonAnnotationInvalid, []string{api.RequiresLockKey + `: "true"`,
				api.GuestMemoryKey, "memory limit"},
		},
		"bad quantity": {
			facts("trusted", map[string]string{api.RequiresLockKey: "true",
				api.GuestMemoryKey: "1e30"}),
			agentapi.ReasonAnnotationInvalid, []string{api.GuestMemoryKey, `"1e30"`, "quantity"},
		},
		"several faults at once": {
			facts("trusted", map[string]string{api.GuestMemoryKey: "-1",
				"typo.memlock" + api.Suffix: "x"}),
			agentapi.ReasonAnnotationInvalid,
			[]string{api.GuestMemoryKey, "typo.memlock" + api.Suffix, "; "},
		},
		"annotations of a newer version": {
			facts("trusted", map[string]string{api.APIVersionKey: "v9"}),
			agentapi.ReasonAnnotationInvalid, []string{api.APIVersionKey, `"v9"`, api.APIVersion},
		},
		"cgroup file that the rule does not list": {
			facts("tenant-a", map[string]string{file("pids.max"): "10"}),
			agentapi.ReasonCgroupRefused,
			[]string{file("pids.max"), `"10"`, `"tenants"`, "memory.high"},
		},
		"cgroup file without any rule": {
			facts("nowhere", map[string]string{file("pids.max"): "10"}),
			agentapi.ReasonCgroupRefused,
			[]string{file("pids.max"), `"10"`, "no rule"},
		},
		"memory.max": {
			facts("trusted", map[string]string{file("memory.max"): "1Gi"}),
			agentapi.ReasonAnnotationInvalid,
			[]string{file("memory.max"), "kubelet"},
		},
		"controller that the node does not have": {
			noHugetlb, agentapi.ReasonCgroupRefused,
			[]string{file("hugetlb.2MB.max"), "no hugetlb controller", "cpu, memory"},
		},
		"launcher annotation is no name, but a profile knows the pod": {
			badLauncher, agentapi.ReasonAnnotationInvalid,
			[]string{api.LauncherKey, `"Not A Name"`},
		},
		"memory lock and cgroup file": {
			facts("tenant-a", map[string]string{api.RequiresLockKey: "true",
				api.GuestMemoryKey: "17Gi", file("pids.max"): "10"}),
			agentapi.ReasonMemlockRefused, []string{"17Gi", "; also: ", "pids.max"},
		},
		"another plugin is asked for the same": {
			withNeighbour(facts("trusted", decidetest.VFIO()), "ulimits.noderesource.dev"),
			agentapi.ReasonNeighbourMemlock,
			[]string{"ulimits.noderesource.dev/container.compute", "ulimit-adjuster",
				"remove memlock from"},
		},
		"domain that the rule does not list": {
			facts("trusted", decidetest.Domain("db-1")), agentapi.ReasonDomainRefused,
			[]string{api.DomainKey + `: "db-1"`, `rule "trusted"`, "it allows vms-*, 5530f9f3",
				"remove the annotation"},
		},
		"domain where the rule lists none": {
			facts("tenant-a", decidetest.Domain("vms-1")), agentapi.ReasonDomainRefused,
			[]string{api.DomainKey + `: "vms-1"`,
				`rule "tenants" of the node policy allows no domains`},
		},
		"domain without any rule": {
			facts("nowhere", decidetest.Domain("vms-1")), agentapi.ReasonDomainRefused,
			[]string{api.DomainKey + `: "vms-1"`, "no rule"},
		},
		"domain that another pod has": {
			claimed(facts("trusted", decidetest.Domain("vms-1"))), agentapi.ReasonDomainClaimed,
			[]string{api.DomainKey + `: "vms-1": pod vms/first has claimed`, "delete that pod"},
		},
		"neighbour by its old name": {
			withNeighbour(facts("trusted", decidetest.VFIO()), "ulimits.nri.containerd.io"),
			agentapi.ReasonNeighbourMemlock,
			[]string{"ulimits.nri.containerd.io/container.compute"},
		},
	}
}

// manyFiles requests twelve files without permission by rule tenants.
func manyFiles() map[string]string {
	requests := map[string]string{}
	for _, name := range []string{
		"cpu.idle", "cpu.weight", "cpuset.cpus", "cpuset.mems", "io.weight", "memory.low",
		"memory.min", "memory.oom.group",
		"memory.swap.high", "memory.swap.max", "memory.zswap.max", "pids.max",
	} {
		requests[name+api.CgroupSuffix] = "1"
	}
	return requests
}

func TestContainerRefuses(t *testing.T) {
	for name, test := range refusalTests() {
		t.Run(name, func(t *testing.T) {
			d := decide.Container(decidetest.Policy(t, policy.Enforce), test.facts)
			if d.Refusal == nil || d.Act() {
				t.Fatalf("Container = %+v, want a refusal that does not act", d)
			}
			checkRefusal(t, d, test)
			if len(d.Remarks) != 1 || d.Remarks[0].Reason != test.reason ||
				d.Remarks[0].Type != agentapi.Warning {
				t.Errorf("remarks = %+v, want one warning %s", d.Remarks, test.reason)
			}
			for _, s := range d.Settings {
				if s.Given != "" || s.Status != "refused" {
					t.Errorf("setting of a refused container: %+v", s)
				}
			}
		})
	}
}

func checkRefusal(t *testing.T, d decide.Decision, test refusalTest) {
	t.Helper()
	text := d.Refusal.Error()
	if d.Refusal.Reason != test.reason {
		t.Errorf("reason = %s, want %s", d.Refusal.Reason, test.reason)
	}
	for _, want := range append(test.text, `mooring refuses container "compute" of pod `+
		test.facts.Pod.Namespace+"/vm") {
		if !strings.Contains(text, want) {
			t.Errorf("message lacks %q:\n%s", want, text)
		}
	}
	if strings.ContainsAny(text, "\n\r") {
		t.Errorf("message is not one line:\n%s", text)
	}
}

func TestContainerObservesRefusals(t *testing.T) {
	for name, test := range refusalTests() {
		t.Run(name, func(t *testing.T) {
			d := decide.Container(decidetest.Policy(t, policy.Observe), test.facts)
			if d.Act() || d.Refusal == nil {
				t.Fatalf("Container = %+v, want a refusal that does not act", d)
			}
			checkRefusal(t, d, test)
			if len(d.Remarks) != 1 || d.Remarks[0].Reason != agentapi.ReasonWouldRefuse {
				t.Errorf("remarks = %+v, want one %s", d.Remarks, agentapi.ReasonWouldRefuse)
			}
		})
	}
}

func claimed(f decide.Facts) decide.Facts {
	f.DomainClaimant = &agentapi.PodRef{Namespace: "vms", Name: "first"}
	return f
}
