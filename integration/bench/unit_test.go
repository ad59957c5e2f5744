package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/integration/node"
)

// fakeNode answers a command if one of its arguments is a known word.
type fakeNode struct {
	node.Node
	answers map[string]string
	run     func(node.Command) error
}

func (n *fakeNode) Output(_ context.Context, args ...string) (string, error) {
	command := strings.Join(args, " ")
	for word, answer := range n.answers {
		if strings.Contains(command, word) {
			return answer, nil
		}
	}
	return "", fmt.Errorf("%s: not expected", command)
}

func (n *fakeNode) Run(_ context.Context, c node.Command) error { return n.run(c) }

func TestUnitRows(t *testing.T) {
	n := &fakeNode{answers: map[string]string{"Rss": "31e6", "Pss": "3e7", "Anonymous": "12000000",
		"MemoryCurrent": "16000000"}}
	rows, err := unitRows(t.Context(), n, "42")
	if err != nil || len(rows) != 4 {
		t.Fatalf("rows = %v, %v, want four", rows, err)
	}
	if v, err := rows[0].Verdict(rows[0].Goals[0]); err != nil || v != "not met" {
		t.Errorf("31 MB are %q, %v", v, err)
	}
	n.answers["MemoryCurrent"] = "[not set]"
	if _, err := unitRows(t.Context(), n, "42"); err == nil ||
		!strings.Contains(err.Error(), "memory.current") {
		t.Errorf("err = %v, want it to name the missing value", err)
	}
}

func TestHoldOn(t *testing.T) {
	n := &fakeNode{run: func(c node.Command) error {
		_, err := io.WriteString(c.Stdout, "ready\n")
		_, _ = io.Copy(io.Discard, c.Stdin)
		return err
	}}
	release, err := startLaunchersOn(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	refused := errors.New("no cgroup v2")
	n.run = func(node.Command) error { return refused }
	if _, err := startLaunchersOn(t.Context(), n); !errors.Is(err, refused) {
		t.Errorf("startLaunchersOn = %v, want it to wrap %v", err, refused)
	}
}

func TestCountVMs(t *testing.T) {
	launchers, vms, err := countVMs(`[{"vms": [{"pid": 1}, {"pid": 2}]}, {}]`)
	if err != nil || launchers != 2 || vms != 2 {
		t.Errorf("%d launchers and %d VM processes, %v, want two of each", launchers, vms, err)
	}
	if _, _, err := countVMs("no launchers on this node"); err == nil {
		t.Error("no error for text that is not JSON")
	}
}
