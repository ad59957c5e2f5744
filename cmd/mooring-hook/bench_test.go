package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/gate"
)

const benchDomain = "<domain type='kvm'><name>vm-249</name>" +
	"<uuid>5530f9f3-5627-4dec-933e-74ce04c51e18</uuid></domain>"

// The cost of the start gate in a `virsh start`: both operations that it decides, with 250 owners.
// An empty hook runs in turn, and ratio is the time with the gate over the time without a decision.
func BenchmarkGate(b *testing.B) {
	dir := b.TempDir()
	hook, empty := filepath.Join(dir, "hook"), filepath.Join(dir, "empty")
	build(b, hook)
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	buildFile(b, empty, source)
	config, writeState := benchState(b, dir)
	args := []string{"gate", "--config", config, "--"}
	writeState()
	probe := exec.CommandContext(b.Context(), hook, append(args, "vm-250", "start", "begin", "-")...)
	if probe.Stdin = strings.NewReader(benchDomain); probe.Run() == nil {
		b.Fatal("the gate does not decide: it allows a domain without an owner")
	}
	var times [2]time.Duration // empty hook, gate
	for b.Loop() {
		writeState() // a state of 30 s is old
		for i, program := range []string{empty, hook} {
			began := time.Now()
			for _, operation := range []string{"prepare", "start"} {
				callHook(b, program, append(args, "vm-249", operation, "begin", "-")...)
			}
			times[i] += time.Since(began)
		}
	}
	b.ReportMetric(float64(times[0].Nanoseconds())/float64(b.N), "empty-ns/op")
	b.ReportMetric(float64(times[1].Nanoseconds())/float64(b.N), "gate-ns/op")
	b.ReportMetric(float64(times[1])/float64(times[0]), "ratio")
}

func callHook(b *testing.B, program string, args ...string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), program, args...)
	cmd.Stdin = strings.NewReader(benchDomain)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		b.Fatalf("%v\n%s", err, out)
	}
}

// benchState returns the path of a configuration, and a function that writes the state of an agent
// with 250 owners. This process is the launcher process of all of them.
func benchState(b *testing.B, dir string) (config string, write func()) {
	b.Helper()
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))
	ticks, err := strconv.ParseUint(fields[22-3], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	names := []string{"vm-*"}
	state := gate.State{RequireOwner: names}
	for i := range 250 {
		state.Owners = append(state.Owners, gate.Owner{
			Domain: fmt.Sprint("vm-", i), Pod: fmt.Sprint("vms/vm-", i), PID: os.Getpid(),
			Ticks: ticks, HeartbeatUntil: gate.Now() + time.Hour,
		})
	}
	path := filepath.Join(dir, gate.StateName)
	config = filepath.Join(dir, "config.json")
	text, err := json.Marshal(gate.Config{Version: gate.Version, State: path, RequireOwner: names})
	if err == nil {
		err = os.WriteFile(config, text, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	return config, func() {
		state.Written = gate.Now()
		if err := state.Write(path); err != nil {
			b.Fatal(err)
		}
	}
}
