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

// The conditions under which containers are created.
const (
	without = "without Mooring"
	with    = "with Mooring"
)

// inBlock is how many containers are created before the agent is stopped or
// started, which takes longer than a container does.
const inBlock = 3

// fewestPairs are made however long they take.
const fewestPairs = 2

// creations measures how long a runtime takes to create and start a container. A
// pair is a block of them with Mooring and one without, right after each other and
// in random order; the agent is stopped and started in between. All are containers
// of the same pods, and removed again. What is returned are means of blocks. There
// are as many pairs as are begun in time.
func creations(ctx context.Context, client *cri.Client, mooring *agent.Agent, during time.Duration) (_ samples, err error) {
	pods, err := runPods(ctx, client)
	defer func() {
		for _, p := range pods {
			err = errors.Join(err, p.Remove(context.WithoutCancel(ctx)))
		}
	}()
	if err != nil {
		return nil, err
	}
	found, warmUp := samples{}, samples{} // first programs come from disk
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

// runPods makes one pod for each workload, by the workload's name.
func runPods(ctx context.Context, client *cri.Client) (map[string]*cri.Sandbox, error) {
	pods := map[string]*cri.Sandbox{}
	for i, w := range workloads() {
		m := w.container(i)
		annotations := m.pod.Annotations
		delete(annotations, "required-plugins.noderesource.dev") // would hold it back without Mooring
		s, err := client.RunPod(ctx, cri.Pod{
			Namespace: namespace, Name: m.pod.Name, UID: uuid.NewString(), Labels: m.pod.Labels, Annotations: annotations,
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

func createBlock(ctx context.Context, pods map[string]*cri.Sandbox, condition string, keep samples) error {
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
		row := many("create and start, "+w.name, with, values)
		row.Ratio, row.Goals = &ratio, []report.Goal{{Of: report.Ratio, Most: mostCreate}}
		rows = append(rows, many("create and start, "+w.name, without, base), row)
	}
	return rows
}
