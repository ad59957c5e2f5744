package hook_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/hook"
)

// The sidecar reads the huge page size from the VMI, because the domain XML lacks it.
func TestVMIHugePages(t *testing.T) {
	const pages = `{"spec":{"domain":{"memory":{"hugepages":{"pageSize":"`
	blockConfig := hook.Config{Options: headroom.Options{Memory: 4096, CPUs: 8, Block: 4}}
	for _, c := range []struct {
		config hook.Config
		vmi    string
		want   string
	}{
		{hook.Config{}, pages + `1Gi"}}}}}`, "<block unit=\"KiB\">1048576<"},
		{hook.Config{}, pages + `2Mi"}}}}}`, "<block unit=\"KiB\">2048<"},
		{hook.Config{}, pages + `64Ki"}}}}}`, "<block unit=\"KiB\">2048<"},
		{hook.Config{}, pages + `large"}}}}}`, "<block unit=\"KiB\">2048<"},
		{hook.Config{}, `{"spec":7}`, "<block unit=\"KiB\">2048<"},
		{hook.Config{}, `{`, "<block unit=\"KiB\">2048<"},
		{blockConfig, pages + `2Mi"}}}}}`, "<block unit=\"KiB\">4096<"},
	} {
		huge := strings.Replace(vm, "<os>", "<memoryBacking><hugepages/></memoryBacking><os>", 1)
		got, err := start(
			t, c.config,
		).call(t.Context(), "v1alpha3.Callbacks/OnDefineDomain", message{1: {huge}, 2: {c.vmi}})
		if err != nil || !strings.Contains(got[1][0], c.want) {
			t.Errorf("%s: %v\n%s", c.vmi, err, got[1])
		}
	}
}

// A block smaller than the VMI's huge page is refused, as with a size in the XML.
func TestBlockBelowVMIHugePage(t *testing.T) {
	s := start(t, hook.Config{Options: headroom.Options{Memory: 4096, CPUs: 8, Block: 4}})
	huge := strings.Replace(vm, "<os>", "<memoryBacking><hugepages/></memoryBacking><os>", 1)
	_, err := s.call(t.Context(), "v1alpha3.Callbacks/OnDefineDomain",
		message{1: {huge}, 2: {`{"spec":{"domain":{"memory":{"hugepages":{"pageSize":"1Gi"}}}}}`}})
	if status.Code(err) != codes.FailedPrecondition ||
		!strings.Contains(err.Error(), "want a multiple of the huge page size, 1Gi") {
		t.Errorf("got %v", err)
	}
}

// The domain XML does not show real-time vCPUs, because KubeVirt sets them after the start.
func TestVMIRealtime(t *testing.T) {
	const realTime = `{"spec":{"domain":{"cpu":{"realtime":{"mask":"0-1"}}}}}`
	s := start(t, hook.Config{})
	_, err := s.call(
		t.Context(), "v1alpha3.Callbacks/OnDefineDomain", message{1: {vm}, 2: {realTime}},
	)
	if status.Code(err) != codes.FailedPrecondition ||
		!strings.Contains(err.Error(), "spec.domain.cpu.realtime: ") {
		t.Errorf("got %v", err)
	}
	small := start(t, hook.Config{Options: headroom.Options{Memory: 1, CPUs: 1}})
	got, err := small.call(
		t.Context(), "v1alpha3.Callbacks/OnDefineDomain", message{1: {vm}, 2: {realTime}},
	)
	if err != nil || got[1][0] != vm {
		t.Errorf("a domain without changes: %v\n%s", err, got[1])
	}
}
