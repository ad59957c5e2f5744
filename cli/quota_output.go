package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

func (p *Program) writeQuotaStatus(s quotaStatusJSON, output *outputFlags) error {
	for _, q := range s.Quotas {
		if err := p.writeQuota(q, output); err != nil {
			return err
		}
	}
	if len(s.Quotas) == 0 {
		fmt.Fprintf(p.Out, "no ResourceQuota in namespace %s, or none without a fault\n\n",
			s.Namespace)
	}
	if text := s.Maintenance.String(); text != "" {
		fmt.Fprintf(p.Out, "maintenance share: %s\n\n", text)
	}
	if err := p.writeMigrations(s, output); err != nil {
		return err
	}
	if err := p.writeSettings(s.KubeVirt); err != nil {
		return err
	}
	p.writeFaults(s)
	return nil
}

// String returns an empty string without a share.
func (m maintenanceJSON) String() string {
	var all []string
	if m.CPU > 0 {
		all = append(all, fmt.Sprintf("%d%% of limits.cpu", m.CPU))
	}
	if m.Memory > 0 {
		all = append(all, fmt.Sprintf("%d%% of limits.memory", m.Memory))
	}
	if m.Strict && len(all) > 0 {
		all = append(all, "strict")
	}
	return strings.Join(all, ", ")
}

func (p *Program) writeQuota(q quotaJSON, output *outputFlags) error {
	text := q.Name
	if q.OptedOut {
		text += ", opted out: it gets no reservations"
	}
	fmt.Fprintf(p.Out, "ResourceQuota %s\n", printable(text))
	if err := output.writeTable(p.Out, resourceRows(q.Resources, output.isWide())); err != nil {
		return err
	}
	if waits := pendingResources(q); len(waits) > 0 {
		fmt.Fprintf(p.Out, "not in force yet: %s\n", printable(strings.Join(waits, ", ")))
	}
	fmt.Fprintln(p.Out)
	return nil
}

// resourceRows adds columns for shares if any resource has one.
func resourceRows(all []resourceJSON, wide bool) [][]string {
	shared := slices.ContainsFunc(all, func(r resourceJSON) bool { return r.VMShare != "" })
	rows := [][]string{{"RESOURCE", "BASE", "RESERVED", "HARD", "USED", "FREE FOR VMS"}}
	if shared {
		rows[0] = append(rows[0], "VMS' SHARE", "MIGRATIONS' SHARE")
	}
	if wide {
		rows[0] = append(rows[0], "DESIRED", "IN FORCE")
	}
	for _, r := range all {
		row := []string{r.Name, r.Base, r.Reserved, r.Hard, r.Used, r.Free}
		if shared {
			row = append(row, r.VMShare, r.MaintenanceShare)
		}
		if wide {
			row = append(row, r.Wanted, strconv.FormatBool(r.InForce))
		}
		rows = append(rows, row)
	}
	return rows
}

// pendingResources returns the resources with an outdated status.hard or spec.hard. An opted-out
// quota has none.
func pendingResources(q quotaJSON) []string {
	var all []string
	for _, r := range q.Resources {
		if !r.InForce && !q.OptedOut {
			all = append(all, r.Name+" "+r.Wanted)
		}
	}
	return all
}

func (p *Program) writeMigrations(s quotaStatusJSON, output *outputFlags) error {
	if len(s.Migrations) == 0 {
		fmt.Fprintf(p.Out, "no migrations\n\n")
		return nil
	}
	charged := chargedIn(s.Quotas)
	rows := [][]string{{"VM", "MIGRATION", "STATE", "RESERVATION", "HOLDS", "WAITING"}}
	for _, m := range s.Migrations {
		state := m.State
		if m.Rejected {
			state += " (rejected by a quota)"
		}
		rows = append(rows, []string{m.VM, m.Migration, state, string(m.Phase),
			formatReserved(m.Reserved, charged), p.formatWaiting(m.Waiting)})
	}
	err := output.writeTable(p.Out, rows)
	fmt.Fprintln(p.Out)
	return err
}

// chargedIn returns the resources limited by the quotas.
func chargedIn(quotas []quotaJSON) map[corev1.ResourceName]bool {
	all := map[corev1.ResourceName]bool{}
	for _, q := range quotas {
		for _, r := range q.Resources {
			all[corev1.ResourceName(r.Name)] = true
		}
	}
	return all
}

// formatReserved formats the part of a reservation that quotas limit.
func formatReserved(list corev1.ResourceList, charged map[corev1.ResourceName]bool) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if charged[name] {
			all = append(all, string(name)+" "+amount(list, name))
		}
	}
	return strings.Join(all, ", ")
}

func (p *Program) formatWaiting(w *waitingJSON) string {
	if w == nil {
		return ""
	}
	return "for " + duration.HumanDuration(p.Now().Sub(w.Since)) + ": " + w.Message
}

func (p *Program) writeSettings(k kubevirtJSON) error {
	if k.Object == "" {
		fmt.Fprintf(p.Out, "KubeVirt's settings: %s\n", oneLine(k.Missing))
		return nil
	}
	fmt.Fprintf(p.Out, "KubeVirt %s, settings of migrations\n", printable(k.Object))
	var rows [][]string
	for _, s := range k.Settings {
		row := []string{s.Name, strings.TrimSpace(s.Value + " " + s.Unit)}
		if s.Default {
			row = append(row, "KubeVirt's default")
		} else {
			row = append(row, "set")
		}
		rows = append(rows, row)
	}
	return table(p.Out, rows)
}

// writeFaults writes faults and notes at the end, where users see them.
func (p *Program) writeFaults(s quotaStatusJSON) {
	if len(s.Faults)+len(s.Notes) > 0 {
		fmt.Fprintln(p.Out)
	}
	for _, f := range s.Faults {
		fmt.Fprintf(p.Out, "fault: %s %s: %s\n", f.Kind, oneLine(f.Name), oneLine(f.Message))
	}
	for _, note := range s.Notes {
		fmt.Fprintf(p.Out, "note: %s\n", oneLine(note))
	}
}
