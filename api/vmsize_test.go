package api_test

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
)

func TestParseVMSize(t *testing.T) {
	got, err := api.ParseVMSize(map[string]string{
		"vcpus.resize.mooring.dev": "4", "memory.resize.mooring.dev": "8Gi",
		"status.resize.mooring.dev": "{}", "request.resize.mooring.dev": "0a-Z",
		"example.org/other": "1",
	})
	if want := (api.Size{VCPUs: 4, Memory: 8 << 30}); err != nil || got != want {
		t.Errorf("size %+v, %v, want %+v", got, err, want)
	}
	if got, err := api.ParseVMSize(nil); err != nil || got != (api.Size{}) {
		t.Errorf("without annotations: %+v, %v", got, err)
	}
}

func TestParseVMSizeErrors(t *testing.T) {
	for name, tt := range map[string]struct{ key, value, want string }{
		"no vCPU":          {"vcpus.resize.mooring.dev", "0", "between 1 and 8192"},
		"many vCPUs":       {"vcpus.resize.mooring.dev", "8193", "between 1 and 8192"},
		"no memory":        {"memory.resize.mooring.dev", "0", "zero makes no sense"},
		"rounded":          {"memory.resize.mooring.dev", "8Gb", "want a whole number of bytes"},
		"a scope":          {"vcpus.resize.mooring.dev/pod", "4", "want vcpus.resize.mooring.dev or"},
		"another limit":    {"cpu-quota.resize.mooring.dev", "150%", "no such size"},
		"an empty request": {"request.resize.mooring.dev", "", "want 1 to 63 letters"},
		"a long request":   {"request.resize.mooring.dev", strings.Repeat("a", 64), "want 1 to 63"},
		"a request name":   {"request.resize.mooring.dev", "a/b", "letters, digits and hyphens"},
		"a typo":           {"vcpu.resize.mooring.dev", "4", "no such size"},
	} {
		t.Run(name, func(t *testing.T) {
			size, err := api.ParseVMSize(map[string]string{tt.key: tt.value,
				"memory.resize.mooring.dev/": "1Gi"})
			if err == nil || size != (api.Size{}) {
				t.Fatalf("size %+v, error %v", size, err)
			}
			for _, part := range []string{"annotation " + tt.key, api.Quote(tt.value), tt.want} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in %q", part, err)
				}
			}
		})
	}
}
