package cli

import (
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
)

var testNode = agentapi.Node{
	Version: "v0.1.0",
	Mode:    "enforce",
	Policy:  "/etc/mooring/policy.yaml",
	NRI:     agentapi.NRI{State: agentapi.NRIConnected, Since: now, Error: "synchronize: timeout"},
	Runtime: agentapi.Runtime{Name: "containerd", Version: "v2.4.2"},
	Memlock: agentapi.Account{Granted: 5 << 30, Unlimited: 2, Max: 64 << 30},
	Tracker: agentapi.Tracker{
		Available: true, Processes: 12, MaxProcesses: 32768, Groups: 3, MaxGroups: 4096,
		LostEvents: 7, LostProcesses: 2, Skipped: 3,
	},
}

func testLaunchers() []agentapi.Launcher {
	return []agentapi.Launcher{
		vfio("vms"), vfio("lab"), differing(), refused(), observed(),
		reusedName("1", 90*time.Minute), reusedName("2", time.Minute), hostile(),
	}
}

func running(
	namespace, name string, age time.Duration, settings ...agentapi.Setting,
) agentapi.Launcher {
	return agentapi.Launcher{
		Pod:       agentapi.PodRef{Namespace: namespace, Name: name, UID: "uid-" + name},
		Container: agentapi.ContainerRef{Name: "compute", ID: "0a1b2c3d", PID: 4711},
		State:     agentapi.StateRunning,
		Mode:      "enforce",
		Rule:      "tenants",
		Settings:  settings,
		Since:     now.Add(-age),
	}
}

func vfio(namespace string) agentapi.Launcher {
	l := running(namespace, "vfio", 3*time.Minute, agentapi.Setting{
		Name: agentapi.MemlockSetting, Requested: "5Gi", Allowed: "16Gi", Given: "5Gi",
		Observed: "5Gi", Status: agentapi.StatusApplied,
		Terms: []agentapi.Term{{Name: "guest memory", Bytes: 4 << 30},
			{Name: "libvirt's allowance", Bytes: 1 << 30}},
	})
	l.Pod.UID += namespace
	return l
}

func differing() agentapi.Launcher {
	l := running("vms", "differs", 50*time.Hour,
		agentapi.Setting{
			Name: agentapi.MemlockSetting, Requested: "unlimited", Allowed: "unlimited",
			Given: "unlimited", Observed: "8Mi",
			Status: agentapi.StatusRepaired, Message: "process 4711 had 8Mi; raised by prlimit",
		},
		agentapi.Setting{
			Name: "memory.high", Requested: "9Gi", Allowed: "listed", Given: "9Gi", Observed: "max",
			Status: agentapi.StatusDiffers, Message: "the runtime dropped it",
		})
	l.Notes = []string{"RLIMIT_MEMLOCK was in the container's spec already", "second note"}
	return l
}

func refused() agentapi.Launcher {
	return agentapi.Launcher{
		Pod:       agentapi.PodRef{Namespace: "vms", Name: "refused", UID: "uid-refused"},
		Container: agentapi.ContainerRef{Name: "compute"},
		State:     agentapi.StateRefused,
		Mode:      "enforce",
		Refusal: "value.memlock.mooring.dev: \"1e30\": not a quantity\n" +
			"memory.high.cgroup.mooring.dev: \"\": empty",
		Since: now.Add(-10 * time.Second),
	}
}

func observed() agentapi.Launcher {
	l := running("lab", "observed", time.Hour, agentapi.Setting{
		Name: agentapi.MemlockSetting, Requested: "32Gi", Allowed: "16Gi", Observed: "8Mi",
		Status: agentapi.StatusObserved,
	})
	l.Mode = "observe"
	l.Refusal = "32Gi asked, rule \"tenants\" allows 16Gi"
	return l
}

// reusedName returns the launcher of one of two pods with the same name.
func reusedName(uid string, age time.Duration) agentapi.Launcher {
	l := running("vms", "again", age)
	l.Pod.UID = uid
	return l
}

// hostile has an annotation that would clear root's terminal and forge a row.
func hostile() agentapi.Launcher {
	l := running("vms", "hostile", time.Second, agentapi.Setting{
		Name: "cpu.max", Requested: "\x1b[2J\x1b]0;owned\a", Allowed: "no\nfake  row",
		Given: "a\tb", Status: agentapi.StatusUnknown,
		Message: "line one\nline \u202e two",
	})
	l.Refusal = "\x9b31m red"
	return l
}
