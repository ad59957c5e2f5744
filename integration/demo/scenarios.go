package main

import (
	"github.com/containerd/nri/pkg/plugin"

	"github.com/mooring-vm/mooring/api"
)

const gib = 1 << 30

// scenario is one pod of the demonstration.
type scenario struct {
	title       string
	annotations map[string]string
	memoryLimit int64
	// plain pods carry no label that makes them launchers.
	plain bool
	// agentStopped shows what happens while the agent is away.
	agentStopped bool
	want         want
}

func whileTheAgentRuns() []scenario {
	return append(granted(), []scenario{
		{
			title: "VM that asks for more than the policy's 16 GiB",
			annotations: map[string]string{
				api.RequiresLockKey: "true",
				api.ValueKey:        "64Gi",
			},
			memoryLimit: 2 * gib,
			want:        want{refusal: []string{"mooring refuses", api.ValueKey, `"64Gi"`, "16Gi"}},
		},
		{
			title: "VM with a quantity that nobody can mean",
			annotations: map[string]string{
				api.RequiresLockKey: "true",
				api.ValueKey:        "1e30",
			},
			memoryLimit: 2 * gib,
			want:        want{refusal: []string{"mooring refuses", api.ValueKey, `"1e30"`}},
		},
		{
			title:       "plain pod",
			memoryLimit: 1 * gib,
			plain:       true,
			want:        want{memlock: nodesDefault},
		},
	}...)
}

func granted() []scenario {
	return []scenario{
		{
			title: "VM with a VFIO device: 4 GiB of guest memory, and libvirt's 1 GiB for device I/O",
			annotations: map[string]string{
				api.GuestMemoryKey: "4Gi",
				api.DevicesKey:     "vfio=1",
			},
			memoryLimit: 5 * gib,
			want:        want{memlock: "5Gi"},
		},
		{
			title: "VM without a bound on locked memory, inside a finite memory limit",
			annotations: map[string]string{
				api.RequiresLockKey: "true",
				api.ValueKey:        "unlimited",
			},
			memoryLimit: 2 * gib,
			want:        want{memlock: "unlimited"},
		},
		{
			title: "VM with cgroup settings",
			annotations: map[string]string{
				"memory.high" + api.CgroupSuffix:     "1536Mi",
				"memory.swap.max" + api.CgroupSuffix: "0",
				"pids.max" + api.CgroupSuffix:        "512",
			},
			memoryLimit: 2 * gib,
			want: want{
				memlock: nodesDefault,
				files:   []file{{"memory.high", "1610612736"}, {"memory.swap.max", "0"}, {"pids.max", "512"}},
			},
		},
	}
}

func whileTheAgentIsStopped() []scenario {
	return []scenario{
		{
			title: "VM that requires Mooring, while the agent is stopped",
			annotations: map[string]string{
				api.RequiresLockKey:              "true",
				plugin.RequiredPluginsAnnotation: `["mooring"]`,
			},
			memoryLimit:  2 * gib,
			agentStopped: true,
			want:         want{refusal: []string{`required plugin "mooring" not present`}},
		},
		{
			title:        "plain pod, while the agent is stopped",
			memoryLimit:  1 * gib,
			plain:        true,
			agentStopped: true,
			want:         want{memlock: nodesDefault},
		},
	}
}
