package report

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Machine describes the machine of a measurement, without its host name.
type Machine struct {
	Date      string `json:"date"`
	CPU       string `json:"cpu"`
	Cores     int    `json:"cores"`
	Virtual   bool   `json:"virtual"`  // a virtual machine
	Emulated  bool   `json:"emulated"` // processor emulated in software
	MemoryGiB int    `json:"memoryGiB"`
	Kernel    string `json:"kernel"`
	Go        string `json:"go"`
	Procs     int    `json:"gomaxprocs"`
	Runtime   string `json:"runtime,omitempty"` // container runtime, if a real one
}

// ThisMachine describes the current machine. It cannot detect an emulated processor.
func ThisMachine() (Machine, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return Machine{}, err
	}
	cpus, err := proc.CPUInfo()
	if err != nil || len(cpus) == 0 {
		return Machine{}, fmt.Errorf("describing the machine: %d processors: %w", len(cpus), err)
	}
	memory, err := proc.Meminfo()
	if err != nil || memory.MemTotal == nil {
		return Machine{}, fmt.Errorf("describing the machine: no MemTotal: %w", err)
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return Machine{}, fmt.Errorf("describing the machine: %w", err)
	}
	// The part after the first "-" belongs to the builder.
	kernel, _, _ := strings.Cut(strings.TrimSpace(string(release)), "-")
	return Machine{
		Date:  time.Now().UTC().Format(time.DateOnly),
		CPU:   strings.TrimSpace(cpus[0].ModelName),
		Cores: len(cpus), MemoryGiB: int((*memory.MemTotal + 1<<19) >> 20),
		Virtual: strings.Contains(strings.Join(cpus[0].Flags, " ")+" ", "hypervisor "),
		Kernel:  kernel, Go: strings.TrimPrefix(runtime.Version(), "go"),
		Procs: runtime.GOMAXPROCS(0),
	}, nil
}

// String describes the machine in one sentence.
func (m Machine) String() string {
	words := []string{fmt.Sprintf("%d x %s", m.Cores, m.CPU)}
	switch {
	case m.Emulated:
		words = append(words, "emulated in software")
	case m.Virtual:
		words = append(words, "a virtual machine")
	}
	words = append(words, fmt.Sprintf("%d GiB of memory", m.MemoryGiB), "Linux "+m.Kernel,
		fmt.Sprintf("Go %s with GOMAXPROCS %d", m.Go, m.Procs))
	if m.Runtime != "" {
		words = append(words, m.Runtime)
	}
	return strings.Join(words, ", ") + "; " + m.Date
}

// JSON returns the input of ParseMachine.
func (m Machine) JSON() (string, error) {
	text, err := json.Marshal(m)
	return string(text), err
}

// ParseMachine reads a description made by JSON on another machine.
func ParseMachine(text string) (Machine, error) {
	var m Machine
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return Machine{}, fmt.Errorf("reading the description of a machine: %w", err)
	}
	return m, nil
}
