package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/agent"
	"github.com/mooring-vm/mooring/integration/bench/report"
	"github.com/mooring-vm/mooring/integration/node"
)

const (
	benchSocket = "/run/bench/nri.sock"
	dropIn      = "/etc/systemd/system/mooring-agent.service.d/bench.conf"
)

// unitMemory measures the agent's unit of deploy/systemd beside launchers of a fake runtime.
// Hundreds of real pods take too long on an emulated node.
func unitMemory(
	ctx context.Context, n node.Node, a *agent.Agent, settle time.Duration,
) (_ []report.Row, err error) {
	release, err := startLaunchersOn(ctx, n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	text := "[Service]\nEnvironment=MOORING_AGENT_FLAGS=--nri-socket=" + benchSocket + "\n"
	if err := n.PushFrom(ctx, strings.NewReader(text), dropIn, 0o644); err != nil {
		return nil, err
	}
	if _, err := n.Output(ctx, "systemctl", "daemon-reload"); err != nil {
		return nil, err
	}
	if err := a.Restart(ctx); err != nil {
		return nil, err
	}
	if err := pause(ctx, settle); err != nil {
		return nil, err
	}
	if err := checkKnown(ctx, a); err != nil {
		return nil, err
	}
	pid, err := a.Pid(ctx)
	if err != nil {
		return nil, err
	}
	return unitRows(ctx, n, pid)
}

// startLaunchersOn runs launchers on the node until release.
func startLaunchersOn(ctx context.Context, n node.Node) (release func() error, err error) {
	input, orders := io.Pipe()
	answers, output := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := n.Run(ctx,
			node.Command{Args: []string{selfOnNode, "launchers", "--socket", benchSocket},
				Stdin: input, Stdout: output})
		output.CloseWithError(errors.Join(err, io.EOF))
		ended <- err
	}()
	release = func() error { return errors.Join(orders.Close(), <-ended) }
	if line, err := bufio.NewReader(answers).ReadString('\n'); line != "ready\n" {
		return nil, fmt.Errorf("starting launchers on the node: the first line is %q: %w", line,
			errors.Join(err, release()))
	}
	return release, nil
}

// checkKnown scrapes the agent, and checks that it knows the launchers and their VMs.
func checkKnown(ctx context.Context, a *agent.Agent) error {
	if _, err := a.Metrics(ctx); err != nil {
		return err
	}
	launchers, vms := 0, 0
	err := await(ctx, func() (bool, error) {
		text, err := a.CLI(ctx, "ps", "-o", "json")
		if err != nil {
			return false, err
		}
		launchers, vms, err = countVMs(text)
		return launchers == residents && vms == residents, err
	})
	if err != nil {
		return fmt.Errorf("the agent knows %d launchers and %d VM processes, want %d of each: %w",
			launchers, vms, residents, err)
	}
	return nil
}

// countVMs parses the output of `mooring ps -o json`.
func countVMs(text string) (launchers, vms int, err error) {
	var all []agentapi.Launcher
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return 0, 0, fmt.Errorf("reading the output of mooring ps: %w", err)
	}
	for _, l := range all {
		vms += len(l.VMs)
	}
	return len(all), vms, nil
}

// unitRows reads the figures from the kernel and systemd.
func unitRows(ctx context.Context, n node.Node, pid string) ([]report.Row, error) {
	var rows []report.Row
	for _, figure := range []struct{ name, command string }{
		{"resident memory (RSS)", "awk '/^Rss:/ {print $2 * 1024}' /proc/" + pid + "/smaps_rollup"},
		{"proportional share (PSS)", "awk '/^Pss:/ {print $2 * 1024}' /proc/" + pid +
			"/smaps_rollup"},
		{"anonymous memory", "awk '/^Anonymous:/ {print $2 * 1024}' /proc/" +
			pid + "/smaps_rollup"},
		{"the unit's cgroup (memory.current)", "systemctl show --property=MemoryCurrent --value " +
			"mooring-agent.service"},
	} {
		text, err := n.Output(ctx, "sh", "-c", figure.command)
		if err != nil {
			return nil, err
		}
		bytes, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%s of the agent: %w", figure.name, err)
		}
		rows = append(rows, report.Row{Measurement: figure.name, Unit: report.Bytes, Value: bytes})
	}
	rows[0].Goals = []report.Goal{{Of: report.Value, Most: mostMemory}}
	return rows, nil
}
