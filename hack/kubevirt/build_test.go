package kubevirt

import "testing"

func TestComponentsFollowTheVariable(t *testing.T) {
	for value, want := range map[string]string{"": "components/1.7", "1.9": "components/1.9"} {
		t.Setenv(EnvVersion, value)
		if got := Components(); got != want {
			t.Errorf("%s=%s: %s, want %s", EnvVersion, value, got, want)
		}
	}
}
