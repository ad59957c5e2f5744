package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/integration/bench/grants"
	"github.com/mooring-vm/mooring/integration/bench/report"
	"github.com/mooring-vm/mooring/integration/bench/stats"
)

// grantTable is the table of waiting times for a quota.
const grantTable = "quotaGrant"

// reviewTable is the table of webhook answers.
const reviewTable = "quotaReviews"

// mostReview is the goal for the p99 of the webhook that writes annotations, in seconds.
const mostReview = 0.01

// mostGrant is the goal for the p99 of a thousand migrations at once, in seconds.
const mostGrant = 0.5

// mostQuotaMemory is the goal for the controller's memory, in bytes.
const mostQuotaMemory = 100e6

// oneRead is the minimum for a webhook that reads from the cluster.
const oneRead = "one read from the API server"

// onePatch is the minimum for raising a quota.
const onePatch = "one patch per migration"

// noWebhook is the baseline of raises in turns with pods.
const noWebhook = "kube-apiserver, no webhook"

// quotaCommand measures the quota controller.
func quotaCommand() *cobra.Command {
	var f measureFlags
	o := grants.Options{Namespaces: 100, VMs: 10, Sizes: []int{1, 100, 1000},
		Rounds: []int{40, 4, 2}, Pairs: 100, Residents: 10000, Quotas: 1000, Reviews: 1000}
	c := &cobra.Command{
		Use:   "quota",
		Short: "Measure how long migrations wait for quota, on a separate control plane",
		Long: "Runs etcd, kube-apiserver, kube-controller-manager and KubeVirt's virt-api, all " +
			"built from their\n" +
			"modules, beside mooring-controller.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.quick {
				o.Namespaces, o.VMs, o.Sizes, o.Rounds, o.Residents, o.Reviews = 2, 2, []int{1, 4},
					[]int{1, 1}, 104, 3
				o.Pairs, o.Quotas = 2, 3
			}
			found, err := measureGrants(c.Context(), o)
			if err != nil {
				return err
			}
			return publish(tables{grantTable: grantRows(o, found), reviewTable: reviewRows(found)},
				f.result)
		},
	}
	f.add(c)
	c.Flags().StringVar(&o.Controller, "controller", "bin/mooring-controller",
		"the controller's program")
	c.Flags().StringVar(&o.Manifest, "manifest", "deploy/kubernetes/install.yaml",
		"CRD and webhooks of the controller")
	c.Flags().StringVar(&o.Role, "role", "deploy/kubernetes/controller-role.yaml",
		"rights of the controller")
	return c
}

func measureGrants(ctx context.Context, o grants.Options) (grants.Found, error) {
	logf("%s: %v migrations at once over %d namespaces", grantTable, o.Sizes, o.Namespaces)
	return grants.Measure(ctx, o)
}

func grantRows(o grants.Options, found grants.Found) []report.Row {
	var rows []report.Row
	for _, size := range o.Sizes {
		name := fmt.Sprintf("migrations at once: %d, until status.hard is raised", size)
		raw := summaryRow(name, onePatch, found.Raw[size])
		ours := summaryRow(name, mooring, found.Mooring[size])
		ratio := stats.RatioOfMedians(found.Mooring[size], found.Raw[size])
		ours.Ratio = &ratio
		if size == 1000 {
			ours.Goals = []report.Goal{{Of: report.P99, Most: mostGrant}}
		}
		rows = append(rows, raw, ours)
	}
	rows = append(rows, turnRows(found)...)
	return append(rows,
		report.Row{Measurement: "writes to the API server, per migration", Candidate: mooring,
			Unit: report.Each, Value: found.Writes},
		report.Row{Measurement: "write conflicts, per migration", Candidate: mooring,
			Unit: report.Each, Value: found.Conflicts},
		memoryRow(fmt.Sprintf("resident memory with %d VMs", found.ResidentLaunched), found.Memory),
		memoryRow(fmt.Sprintf("the same with %d more namespaces with a quota", o.Quotas),
			found.MemoryQuotas),
	)
}

// turnRows compares single raises with pods that kube-apiserver charges to a quota.
func turnRows(found grants.Found) []report.Row {
	raises := summaryRow("one migration, in turns with such pods", mooring, found.Raises)
	ratio := stats.RatioOfMedians(found.Raises, found.Pods)
	raises.Ratio = &ratio
	return []report.Row{summaryRow("a pod created within a quota", noWebhook, found.Pods), raises}
}

func memoryRow(measurement string, bytes float64) report.Row {
	return report.Row{Measurement: measurement, Candidate: mooring, Unit: report.Bytes,
		Value: bytes, Goals: []report.Goal{{Of: report.Value, Most: mostQuotaMemory}}}
}

func reviewRows(found grants.Found) []report.Row {
	rows := []report.Row{summaryRow("baseline", oneRead, found.Read)}
	for _, name := range slices.Sorted(maps.Keys(found.Reviewed)) {
		row := summaryRow(name, mooring, found.Reviewed[name])
		ratio := stats.RatioOfMedians(found.Reviewed[name], found.Read)
		row.Ratio = &ratio
		if name == grants.LauncherAnnotations {
			row.Goals = []report.Goal{{Of: report.P99, Most: mostReview}}
		}
		rows = append(rows, row)
	}
	return rows
}
