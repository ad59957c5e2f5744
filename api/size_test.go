package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseSize(t *testing.T) {
	got, err := ParseSize(map[string]string{
		VCPUsKey: "2", VCPUsKey + "/container.compute": "4", ResizeMemoryKey: "4Gi",
		CPUQuotaKey: "150", CPUSharesKey: "200",
		ValueKey: "garbage", APIVersionKey: "another", // not about the size
	}, "compute")
	want := Size{VCPUs: 4, Memory: 4 << 30, CPUQuota: CPUQuota{Percent: 150}, CPUShares: 200}
	if got != want || err != nil {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for key, value := range map[string]string{VCPUsKey: "0", ResizeMemoryKey: "0",
		CPUQuotaKey: "0%", CPUSharesKey: "1", "cpus.resize.mooring.dev": "1"} {
		got, err := ParseSize(map[string]string{key: value}, "")
		if got != (Size{}) || err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %q gives %+v, %v", key, value, got, err)
		}
	}
}

// The field names are a contract of the pod socket, of the agent's socket and of Events.
func TestSizeAsJSON(t *testing.T) {
	for text, want := range map[string]Size{
		`{}`: {},
		`{"vcpus":4,"memory":4294967296,"cpuQuota":"150%","cpuShares":200}`: {VCPUs: 4,
			Memory: 4 << 30, CPUQuota: CPUQuota{Percent: 150}, CPUShares: 200},
		`{"cpuQuota":"1200/2400MHz"}`: {CPUQuota: CPUQuota{MHz: 1200, OfHost: 2400}},
		`{"cpuQuota":"none"}`:         {CPUQuota: CPUQuota{None: true}},
	} {
		var got Size
		err := json.Unmarshal([]byte(text), &got)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", text, err, diff)
		}
		if again, err := json.Marshal(got); string(again) != text || err != nil {
			t.Errorf("%s becomes %s, %v", text, again, err)
		}
	}
	var got Size
	if err := json.Unmarshal([]byte(`{"cpuQuota":""}`), &got); got != (Size{}) || err != nil {
		t.Errorf("an empty quota gives %+v, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`{"cpuQuota":"x"}`), &got); err == nil ||
		!strings.HasPrefix(err.Error(), `cpuQuota: "x": want percent`) {
		t.Errorf("a quota of x gives %v", err)
	}
}

func TestSizeIsReadBackFromItsAnnotations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Size{
			VCPUs:  rapid.IntRange(0, MaxVCPUs).Draw(t, "vCPUs"),
			Memory: Bytes(rapid.Int64Min(0).Draw(t, "memory")),
			CPUQuota: rapid.SampledFrom([]CPUQuota{
				{}, {None: true}, {Percent: 1}, {Percent: MaxCPUPercent}, {MHz: 1200, OfHost: 2400},
			}).Draw(t, "quota"),
			CPUShares: rapid.SampledFrom([]int{0, MinCPUShares, MaxCPUShares}).Draw(t, "shares"),
		}
		if got, err := ParseSize(want.Annotations(), "compute"); got != want || err != nil {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	})
}
