package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/mooring-vm/mooring/integration/agent"
	"github.com/mooring-vm/mooring/integration/bench/report"
	"github.com/mooring-vm/mooring/integration/bench/stats"
	"github.com/mooring-vm/mooring/integration/cri"
)

// The two conditions of the comparison.
const (
	without = "without Mooring"
	with    = "with Mooring"
)

// inBlock is the number of containers between two restarts of the agent, because a restart takes
// longer than a container.
const inBlock = 3

// fewestPairs is the minimum number of pairs.
const fewestPairs = 2

// creations measures the time of a runtime to create and start a container. A pair has one block of
// containers with Mooring and one without, in random order. The agent stops or starts between them.
// All containers belong to the same pods and are removed afterwards. The result contains the
// blocks' means. New pairs start until the time is over.
func creations(
	ctx context.Context, client *cri.Client, mooring *agent.Agent, during time.Duration,
) (_ samples, err error) {
	pods, err := runPods(ctx, client)
	defer func() {
		for _, p := range pods {
			err = errors.Join(err, p.Remove(context.WithoutCancel(ctx)))
		}
	}()
	if err != nil {
		return nil, err
	}
	found, warmUp := samples{}, samples{} // the first run loads programs from disk
	began := time.Now()
	for pair := 0; pair <= fewestPairs || time.Since(began) < during; pair++ {
		keep := found
		if pair == 0 {
			keep = warmUp
		}
		for _, condition := range inRandomOrder(without, with) {
			if err := under(ctx, mooring, condition); err != nil {
				return nil, err
			}
			if err := createBlock(ctx, pods, condition, keep); err != nil {
				return nil, err
			}
		}
	}
	return found, under(ctx, mooring, with)
}

// runPods makes one pod for each workload and returns them by workload name.
func runPods(ctx context.Context, client *cri.Client) (map[string]*cri.Sandbox, error) {
	pods := map[string]*cri.Sandbox{}
	for i, w := range workloads() {
		m := w.container(i)
		annotations := m.pod.Annotations
		// would block the container without Mooring
		delete(annotations, "required-plugins.noderesource.dev")
		s, err := client.RunPod(ctx, cri.Pod{
			Namespace: namespace, Name: m.pod.Name, UID: uuid.NewString(), Labels: m.pod.Labels,
			Annotations: annotations,
		})
		if err != nil {
			return pods, err
		}
		pods[w.name] = s
	}
	return pods, nil
}

func inRandomOrder(all ...string) []string {
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func under(ctx context.Context, mooring *agent.Agent, condition string) error {
	if condition == with {
		return mooring.Start(ctx)
	}
	return mooring.Stop(ctx)
}

func createBlock(
	ctx context.Context, pods map[string]*cri.Sandbox, condition string, keep samples,
) error {
	sums := map[string]time.Duration{}
	for range inBlock {
		for _, name := range inRandomOrder(slices.Collect(maps.Keys(pods))...) {
			took, err := createOnce(ctx, pods[name])
			if err != nil {
				return fmt.Errorf("%s, %s: %w", name, condition, err)
			}
			sums[name] += took
		}
	}
	for name, sum := range sums {
		keep.add(cell(condition, name), sum/inBlock)
	}
	return nil
}

func createOnce(ctx context.Context, pod *cri.Sandbox) (time.Duration, error) {
	began := time.Now()
	c, err := pod.Run(ctx, cri.Container{Name: launcherName, MemoryLimit: 6 * gib})
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	return took, errors.Join(c.Stop(ctx, 0), c.Remove(ctx))
}

func createRows(s samples) []report.Row {
	var rows []report.Row
	for _, w := range workloads() {
		base, values := s[cell(without, w.name)], s[cell(with, w.name)]
		ratio := stats.MedianOfRatios(values, base)
		row := summaryRow("create and start, "+w.name, with, values)
		row.Ratio, row.Goals = &ratio, []report.Goal{{Of: report.Ratio, Most: mostCreate}}
		rows = append(rows, summaryRow("create and start, "+w.name, without, base), row)
	}
	return rows
}
