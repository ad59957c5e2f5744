package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"time"

	nri "github.com/containerd/nri/pkg/api"
)

// The measured steps of a connection.
const (
	connectStep     = "connect"
	synchronizeStep = "Synchronize"
	firstStep       = "the first launcher afterwards"
)

// connections measures a plugin's connection, from the order to the runtime's answer to
// Synchronize, Synchronize alone, and the first launcher afterwards. The request lists n
// containers. Each round starts a new process, as after a restart.
func connections(ctx context.Context, rounds, n int) (samples, error) {
	found, listed := samples{}, mixed(n)
	for range rounds {
		order := []string{empty, mooring}
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, name := range order {
			if err := connectOnce(ctx, name, listed, found); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

func connectOnce(
	ctx context.Context, name string, listed []member, found samples,
) (err error) {
	c, err := startCandidate(ctx, name, listed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	whole, synchronize, err := c.connect(ctx)
	if err != nil {
		return err
	}
	first, err := (request{c, "launcher", launcher(len(listed))}).measure(ctx)
	if err != nil {
		return err
	}
	found.add(cell(name, connectStep), whole)
	found.add(cell(name, synchronizeStep), synchronize)
	found.add(cell(name, firstStep), first)
	return nil
}

// mixed returns containers of a node with VMs: every fourth container is a launcher.
func mixed(n int) []member {
	all := make([]member, n)
	for i := range all {
		all[i] = plain(i)
		if i%4 == 0 {
			all[i] = launcher(i)
		}
		all[i].ctr.State = nri.ContainerState_CONTAINER_RUNNING
	}
	return all
}

// handler measures Mooring's own part of Synchronize without the transport.
func handler(ctx context.Context, rounds, n int) (_ []float64, err error) {
	dir, err := os.MkdirTemp(tmpfs(), "bench-pods")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	var pods []*nri.PodSandbox
	var ctrs []*nri.Container
	for _, m := range mixed(n) {
		pods, ctrs = append(pods, m.pod), append(ctrs, m.ctr)
	}
	var took []float64
	for range rounds {
		one, err := handleOnce(ctx, dir, null, pods, ctrs)
		if err != nil {
			return nil, err
		}
		took = append(took, one.Seconds())
	}
	return took, nil
}

// handleOnce uses a new plugin, so that all launchers are unknown to it.
func handleOnce(
	ctx context.Context, root string, log *os.File, pods []*nri.PodSandbox, ctrs []*nri.Container,
) (time.Duration, error) {
	m, err := newMooring(root, log)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	_, err = m.Synchronize(ctx, pods, ctrs)
	return time.Since(began), errors.Join(err, m.close())
}
