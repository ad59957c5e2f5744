package guard_test

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
)

func TestGuardCgroupFiles(t *testing.T) {
	high := api.CgroupSetting{File: "memory.high", Value: "9663676416"}
	low := api.CgroupSetting{File: "memory.low", Value: "1073741824"}
	tests := map[string]struct {
		given  api.CgroupSetting
		files  map[string]string // content by cgroup/file
		status agentapi.Status
		seen   string
		reason agentapi.Reason // empty: no Event
		text   string
	}{
		"as set": {
			high, map[string]string{cgroup + "/memory.high": "9663676416\n"},
			agentapi.StatusApplied, "9Gi", "", "",
		},
		"different value": {
			high, map[string]string{cgroup + "/memory.high": "max\n"},
			agentapi.StatusDiffers, "max", agentapi.ReasonCgroupDiffers,
			`was set to "9Gi" but the kernel shows "max"`,
		},
		"missing file": {
			high, nil, agentapi.StatusDiffers, "", agentapi.ReasonCgroupDiffers,
			"memory controller is not enabled",
		},
		"lines for several devices": {
			api.CgroupSetting{File: "io.max", Value: "8:0 rbps=1048576"},
			map[string]string{cgroup + "/io.max": "7:0 rbps=1 wbps=max riops=max wiops=max\n8:0 " +
				"rbps=1048576 wbps=max riops=max wiops=max\n"},
			agentapi.StatusApplied, "7:0 rbps=1 wbps=max riops=max wiops=max; 8:0 rbps=1048576 " +
				"wbps=max riops=max wiops=max", "", "",
		},
		"protection in every ancestor": {
			low, map[string]string{
				cgroup + "/memory.low": "1073741824\n", podCgroup + "/memory.low": "max\n",
				"/kubepods.slice/memory.low": "1073741824\n",
			},
			agentapi.StatusApplied, "1Gi", "", "",
		},
		"protection missing in the pod": {
			low, map[string]string{
				cgroup + "/memory.low": "1073741824\n", podCgroup + "/memory.low": "0\n",
				"/kubepods.slice/memory.low": "max\n",
			},
			agentapi.StatusIneffective, "1Gi", agentapi.ReasonCgroupIneffective,
			"ancestor " + podCgroup + ", which is 0",
		},
		"too little protection at the top": {
			low, map[string]string{
				cgroup + "/memory.low": "1073741824\n", podCgroup + "/memory.low": "max\n",
				"/kubepods.slice/memory.low": "4096\n",
			},
			agentapi.StatusIneffective, "1Gi", agentapi.ReasonCgroupIneffective,
			"ancestor /kubepods.slice, which is 4Ki",
		},
		"protection of 0": {
			api.CgroupSetting{File: "memory.low", Value: "0"},
			map[string]string{cgroup + "/memory.low": "0\n", podCgroup + "/memory.low": "0\n"},
			agentapi.StatusApplied, "0", "", "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			withBench(t, benchConfig{cgroup: []api.CgroupSetting{test.given}},
				func(t *testing.T, b *bench) {
					b.kernel.Start(100, cgroup, same(5*gi))
					write(b.kernel, test.files)
					b.check(t)
					s := b.check(t).Settings[1]
					if s.Status != test.status || s.Observed != test.seen ||
						!strings.Contains(s.Message, test.text) {
						t.Errorf("setting = %+v, want %s, seen %q, message with %q", s, test.status,
							test.seen, test.text)
					}
					if test.reason == "" {
						b.expectReasons(t)
					} else {
						b.expectReasons(t, test.reason)
					}
				})
		})
	}
}

func write(k *lifecycletest.Kernel, files map[string]string) {
	for path, content := range files {
		at := strings.LastIndexByte(path, '/')
		k.Write(path[:at], path[at+1:], content)
	}
}
