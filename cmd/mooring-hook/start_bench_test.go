package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/agent/libvirt/libvirttest"
	"github.com/mooring-vm/mooring/lifecycle/gate"
)

// startSamplesFile is the environment variable with the name of the file for `bin/bench start-gate`.
const startSamplesFile = "MOORING_START_SAMPLES"

// startDomain has no disk: it runs the firmware only.
const startDomain = `<domain type='qemu'>
  <name>vm-249</name>
  <memory unit='MiB'>16</memory>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
  <devices><controller type='usb' model='none'/><memballoon model='none'/></devices>
</domain>
`

// BenchmarkStart compares `virsh create` of two libvirts in turns: one has the start gate, beside
// 250 owners, and the other has no hook.
func BenchmarkStart(b *testing.B) {
	hook, domain := filepath.Join(b.TempDir(), "hook"), filepath.Join(b.TempDir(), "domain.xml")
	build(b, hook)
	if err := os.WriteFile(domain, []byte(startDomain), 0o600); err != nil {
		b.Fatal(err)
	}
	var writeState func()
	libvirts := map[string]*libvirttest.Libvirt{
		"no gate": libvirttest.Start(b, func(string) {}),
		"Mooring": libvirttest.Start(b, func(home string) {
			writeState = installGate(b, home, hook)
		}),
	}
	checkGate(b, libvirts["Mooring"], domain)
	writeState()
	for _, l := range libvirts { // the first start probes QEMU
		l.Must(b, "create", domain)
		l.Destroy(b, "vm-249")
	}
	took := map[string][]float64{}
	for b.Loop() {
		writeState() // a state of 30 s is old
		names := []string{"no gate", "Mooring"}
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			began := time.Now()
			libvirts[name].Must(b, "create", domain)
			took[name] = append(took[name], time.Since(began).Seconds())
			libvirts[name].Destroy(b, "vm-249")
		}
	}
	b.ReportMetric(sum(took["Mooring"])/sum(took["no gate"]), "ratio")
	if file := os.Getenv(startSamplesFile); file != "" {
		data, err := json.Marshal(took)
		if err == nil {
			err = os.WriteFile(file, data, 0o600)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

// installGate installs a hook and its configuration into the home of a libvirt before its start. It
// returns a function that writes the agent's state.
func installGate(b *testing.B, home, hook string) (writeState func()) {
	b.Helper()
	place := func(path string) string {
		return filepath.Join(home, "etc", strings.TrimPrefix(path, "/etc/libvirt/"))
	}
	config, writeState := benchState(b, b.TempDir())
	err := os.MkdirAll(filepath.Dir(place(gate.HookPath)), 0o700)
	for to, from := range map[string]string{gate.HookPath: hook, gate.ConfigPath: config} {
		var content []byte
		if err == nil {
			content, err = os.ReadFile(from)
		}
		if err == nil {
			err = os.WriteFile(place(to), content, 0o700)
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	return writeState
}

// checkGate fails the benchmark unless the gate decides: it refuses a start before the first state.
func checkGate(b *testing.B, l *libvirttest.Libvirt, domain string) {
	b.Helper()
	err := l.Virsh(b, "create", domain)
	if err == nil || !strings.Contains(err.Error(), "the start gate refuses domain vm-249") {
		b.Fatalf("%v, want a refusal by the gate", err)
	}
}
