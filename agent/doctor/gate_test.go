package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/agent/libvirt"
	"github.com/mooring-vm/mooring/lifecycle/gate"
)

const gatePolicy = "apiVersion: mooring.dev/v1alpha1\nkind: NodePolicy\nmode: enforce\n" +
	"lifecycle: {libvirt: {requireOwner: ['vm-*']}}\n"

// withGate is a node with this policy, the hook, and this configuration of the hook. libvirt
// answers the probe.
func withGate(policy, config string, works bool, err error) change {
	return withGateAnd(nil, policy, config, works, err)
}

// withGateAnd is withGate with more files.
func withGateAnd(more map[string]string, policy, config string, works bool, err error) change {
	files := map[string]string{
		"etc/mooring/policy.yaml":                policy,
		strings.TrimPrefix(gate.HookPath, "/"):   "ELF",
		strings.TrimPrefix(gate.ConfigPath, "/"): config,
	}
	maps.Copy(files, more)
	return both(with(files), func(m *Machine) {
		m.ProbeGate = func(context.Context, string) (bool, error) { return works, err }
	})
}

func TestStartGateFindings(t *testing.T) {
	const config = `{"version": 1, "requireOwner": ["vm-*"]}`
	observe := strings.Replace(gatePolicy, "enforce", "observe", 1)
	const check = "start-gate"
	program := func(content string) map[string]string {
		return file(strings.TrimPrefix(gate.Programs()[0], "/"), content)
	}
	expect(t, map[string]expectation{
		"no policy": {with(nil), check, OK, "no node policy"},
		"policy in the cluster": {agentIs(func(a *Agent) { a.Policy = "NodePolicy gpu, generation 1" }),
			check, Unknown, "kubectl get nodepolicies"},
		"no names": {with(file("etc/mooring/policy.yaml", libvirtPolicy)), check, OK,
			"requires no owners"},
		"works":          {withGate(gatePolicy, config, true, nil), check, OK, "refused the probe"},
		"hook of no use": {withGate(libvirtPolicy, config, true, nil), check, Note, "of no use"},
		"no hook": {with(file("etc/mooring/policy.yaml", gatePolicy)), check, Problem,
			"mooring node configure"},
		"no configuration": {withGate(gatePolicy, "", true, nil), check, Problem,
			gate.ConfigPath},
		"broken configuration": {withGate(gatePolicy, "x", true, nil), check, Problem,
			gate.ConfigPath},
		"other names": {withGate(gatePolicy, `{"version": 1}`, true, nil), check, Problem,
			`want version 1, names ["vm-*"]`},
		"observe mode": {withGate(observe, `{"version": 1}`, true, nil), check, OK, "refused"},
		"hook of another version": {withGateAnd(program("ELF 2"), gatePolicy, config, true, nil),
			check, Problem, "differs from " + gate.Programs()[0]},
		"hook of this version": {withGateAnd(program("ELF"), gatePolicy, config, true, nil), check,
			OK, "refused"},
		"libvirt runs since before": {withGate(gatePolicy, config, false, nil), check, Problem,
			"restart libvirtd"},
		"no libvirt": {withGate(gatePolicy, config, false, errors.New("no socket")), check,
			Unknown, "no socket"},
		"hook denied by AppArmor": {withGate(gatePolicy, config, false, fmt.Errorf("probe: %w: "+
			"cannot execute binary: Permission denied", libvirt.ErrHookFailed)), check, Problem,
			"AppArmor"},
	})
}
