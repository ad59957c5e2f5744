package kubevirtnode

import (
	"encoding/json"
	"slices"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/hack/kubevirt"
)

// Only KubeVirt 1.9 has the plugin API.
func TestConfiguration(t *testing.T) {
	for minor, want := range map[string]bool{"": false, "1.7": false, "1.9": true} {
		t.Setenv(kubevirt.EnvVersion, minor)
		c := &kubevirtv1.KubeVirtConfiguration{}
		if err := json.Unmarshal([]byte(configuration()), c); err != nil {
			t.Fatal(err)
		}
		gates := c.DeveloperConfiguration.FeatureGates
		if slices.Contains(gates, "Plugins") != want || !slices.Contains(gates, "HostDevices") {
			t.Errorf("KubeVirt %q has the gates %v, want Plugins: %t", minor, gates, want)
		}
	}
}
