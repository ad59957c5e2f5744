package quota

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mooring-vm/mooring/api"
)

// MaintenanceAnnotation of a namespace sets the maintenance share of its quotas. It takes
// precedence over the annotation "maintenanceQuota" under [Options.Prefix], which has the same
// format: {"limit":{"limitsCpuPercent":50,"limitsMemoryPercent":"50","strict":true}}. The last
// name is Mooring's own.
const MaintenanceAnnotation = "maintenance.quota" + api.Suffix

// Maintenance is the maintenance share of a quota in percent, 0 to 100. Zero is no share.
type Maintenance struct {
	CPU, Memory int64

	// Strict: migrations get the share and no more. Otherwise the quota is raised by the rest.
	Strict bool
}

// MaintenanceOf reads the annotation of a namespace. Without an annotation the share is zero. The
// error is an [*api.InvalidError].
func MaintenanceOf(ns *corev1.Namespace, o Options) (Maintenance, error) {
	if ns == nil {
		return Maintenance{}, nil
	}
	for _, key := range []string{MaintenanceAnnotation, o.WithDefaults().Prefix + MaintenanceName} {
		if text := ns.Annotations[key]; text != "" {
			return parseMaintenance(key, text)
		}
	}
	return Maintenance{}, nil
}

// parseMaintenance reads percentages, with or without an outer "limit". It ignores the case of
// names and accepts numbers as 50 and "50".
func parseMaintenance(key, text string) (Maintenance, error) {
	invalid := func(format string, args ...any) (Maintenance, error) {
		return Maintenance{}, &api.InvalidError{Key: key, Value: text,
			Allowed: fmt.Sprintf(format, args...)}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return invalid(
			`want JSON such as {"limit":{"limitsCpuPercent":50,"limitsMemoryPercent":50}}`)
	}
	if inner, ok := fields["limit"]; ok && len(fields) == 1 {
		fields = nil
		if err := json.Unmarshal(inner, &fields); err != nil {
			return invalid("limit: want an object with limitsCpuPercent and limitsMemoryPercent")
		}
	}
	const wantNames = "%.80q: want limitsCpuPercent, limitsMemoryPercent and strict, each once"
	var m Maintenance
	seen := map[string]bool{}
	for name, raw := range fields {
		key := strings.ToLower(name)
		var err error
		switch {
		case seen[key]:
			return invalid(wantNames, name)
		case key == "limitscpupercent":
			m.CPU, err = parsePercent(raw)
		case key == "limitsmemorypercent":
			m.Memory, err = parsePercent(raw)
		case key == "strict":
			m.Strict, err = parseStrict(raw)
		default:
			return invalid(wantNames, name)
		}
		if err != nil {
			return invalid("%s: %v", name, err)
		}
		seen[key] = true
	}
	return m, nil
}

func parseStrict(raw json.RawMessage) (bool, error) {
	switch string(raw) {
	case `true`, `"true"`:
		return true, nil
	case `false`, `"false"`:
		return false, nil
	}
	return false, fmt.Errorf("%.80s: want true or false", raw)
}

func parsePercent(raw json.RawMessage) (int64, error) {
	text := string(raw)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(raw, &text); err != nil {
			return 0, err
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > 100 {
		return 0, fmt.Errorf("%.80s: want a whole number from 0 to 100", raw)
	}
	return n, nil
}

// Shares are the two parts of a quota's base. A resource in neither part has no share, and only the
// quota limits it. A share of zero is a limit of zero.
type Shares struct {
	VM          corev1.ResourceList // for VMs
	Maintenance corev1.ResourceList // for migrations

	Strict bool // see [Maintenance]
}

// Of divides a base. Migrations get trunc(base * percent / 100), in thousandths of a CPU and in
// bytes. VMs get the rest.
func (m Maintenance) Of(base corev1.ResourceList) Shares {
	s := Shares{VM: corev1.ResourceList{}, Maintenance: corev1.ResourceList{}, Strict: m.Strict}
	if cpu, ok := base[corev1.ResourceLimitsCPU]; ok && m.CPU > 0 {
		part := resource.NewMilliQuantity(percent(cpu.MilliValue(), m.CPU), resource.DecimalSI)
		s.put(corev1.ResourceLimitsCPU, cpu, *part)
	}
	if memory, ok := base[corev1.ResourceLimitsMemory]; ok && m.Memory > 0 {
		part := resource.NewQuantity(percent(memory.Value(), m.Memory), memory.Format)
		s.put(corev1.ResourceLimitsMemory, memory, *part)
	}
	return s
}

func (s Shares) put(name corev1.ResourceName, all, part resource.Quantity) {
	rest := all.DeepCopy()
	rest.Sub(part)
	s.VM[name], s.Maintenance[name] = rest, part
}

// percent computes n * p / 100 without overflow.
func percent(n, p int64) int64 { return n/100*p + n%100*p/100 }
