package podserver_test

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/plugin/plugintest"
)

const boundedRules = `
apiVersion: mooring.dev/v1alpha1
kind: NodePolicy
mode: enforce
rules:
- name: trusted
  namespaces: [vms]
  serviceAccounts: [admin]
  resize: {maxMemory: 64Gi}
- name: tenants
  namespaces: [%s]
  resize: {maxMemory: 8Gi, maxVCPUs: 4}
`

// The desired size has the bound of the first matching rule. Without a match it has no size.
func TestDesiredHasThePolicysBound(t *testing.T) {
	for name, tt := range map[string]struct {
		namespaces string
		account    *plugintest.Account // nil: unknown
		want       podapi.Bound
		fails      string
	}{
		"by account": {"vms", new(plugintest.Account("admin")),
			podapi.Bound{Rule: "trusted", Memory: 64 << 30}, ""},
		"by namespace": {"vms", new(plugintest.Account("default")),
			podapi.Bound{Rule: "tenants", Memory: 8 << 30, VCPUs: 4}, ""},
		"no match": {"others", new(plugintest.Account("default")), podapi.Bound{},
			"no rule of the node policy matches"},
		"an unknown account": {"vms", nil, podapi.Bound{}, "service account"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigWith(t, strings.Replace(boundedRules, "%s", tt.namespaces, 1))
			r.Node.Desired = specs{"a": {Size: vcpus(4)}}
			if tt.account != nil {
				r.Accounts = *tt.account
			}
			got, err := r.Pod("a").Desired()
			must(t, err)
			if tt.fails != "" {
				if !strings.Contains(got.Error, tt.fails) || got.Size != (api.Size{}) {
					t.Errorf("%+v, want no size and the error %q", got, tt.fails)
				}
			} else if got.Policy != tt.want || got.Size != vcpus(4) || got.Error != "" {
				t.Errorf("%+v, want the bound %+v", got, tt.want)
			}
		})
	}
}
