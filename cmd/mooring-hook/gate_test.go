package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/gate"
)

// libvirt calls the installed hook without the name of the command.
func TestCommandOf(t *testing.T) {
	for argv0, want := range map[string][]string{
		"/run/mooring/hook": {"vm-1", "start"}, gate.HookPath: {"gate", "--", "vm-1", "start"},
	} {
		if got := commandOf([]string{argv0, "vm-1", "start"}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", argv0, got, want)
		}
	}
}

// An upgrade of the DaemonSet replaces the gate, also with a node that refuses.
func TestInstallRefreshesTheGate(t *testing.T) {
	dir := t.TempDir()
	program, node := filepath.Join(dir, "program"), filepath.Join(dir, "node")
	build(t, program)
	installed := filepath.Join(node, gate.HookPath)
	err := os.MkdirAll(filepath.Dir(installed), 0o755)
	if err == nil {
		err = os.WriteFile(installed, []byte("old"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for root, message := range map[string]string{
		node: gate.HookPath + ": replaced", filepath.Join(dir, "none"): "mooring node configure",
	} {
		out, err := exec.CommandContext(t.Context(), program, "install", "--node="+root,
			filepath.Join(dir, "hook")).CombinedOutput()
		if err != nil || !strings.Contains(string(out), message) {
			t.Errorf("%v, %s, want %q", err, out, message)
		}
	}
	want, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(installed); err != nil || string(got) != string(want) {
		t.Errorf("%d bytes, %v, want the program of %d bytes", len(got), err, len(want))
	}
}

// A process with a closed or hostile standard input answers with its exit code alone.
func TestGateProgram(t *testing.T) {
	dir := t.TempDir()
	hook, config := filepath.Join(dir, "hook"), filepath.Join(dir, "config.json")
	build(t, hook)
	text, err := json.Marshal(gate.Config{Version: gate.Version,
		State: filepath.Join(dir, "none"), RequireOwner: []string{"vm-*"}})
	if err == nil {
		err = os.WriteFile(config, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for call, refusal := range map[string]string{
		"vm-1 prepare begin -":          "the start gate refuses domain vm-1: ",
		"vm-1 start begin -":            "the start gate refuses domain vm-1: ",
		"vm-1 reconnect begin -":        "",
		"vm-1 stopped end -":            "",
		"vm-1 migrate begin -":          "",
		"db prepare begin -":            "",
		"-x prepare begin -":            "",
		gate.Probe + " prepare begin -": gate.ProbeRefused,
	} {
		cmd := exec.CommandContext(t.Context(), hook, append([]string{"gate", "--config", config,
			"--"}, strings.Fields(call)...)...)
		cmd.Stdin = strings.NewReader("<domain>" + strings.Repeat("<a>", 1<<20))
		var out, errOut strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errOut
		_ = cmd.Run()
		want := 0
		if refusal != "" {
			want = 1
		}
		if code := cmd.ProcessState.ExitCode(); code != want || out.String() != "" ||
			!strings.Contains(errOut.String(), refusal) || refusal == "" && errOut.String() != "" {
			t.Errorf("%s: exit code %d, out %q, err %q", call, code, out.String(), errOut.String())
		}
	}
}
