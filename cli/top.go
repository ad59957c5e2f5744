package cli

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

func (p *Program) topCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show memory, locked memory and CPU of VMs against their limits",
		Long: "Shows the use of the node by the VM processes of each launcher. MEMORY is\n" +
			"resident memory, LIMIT the memory limit of the container, LOCKED and PINNED\n" +
			"are VmLck and VmPin, and MEMLOCK is the memory-lock limit. CPU is in\n" +
			"thousandths of a CPU (m), and CPU LIMIT the limit of the container.\n\n" +
			"Each agent samples its VM processes every 15 seconds. In a cluster a sample is\n" +
			"at most a minute older. -o wide adds the container, its number of VM\n" +
			"processes, and PINNED PER: the kernel compares the pinned pages of the process or\n" +
			"of the user with MEMLOCK.",
		Args: between(0, 0, "none"),
	}
	var flags viewFlags
	var output outputFlags
	output.add(cmd, formatTable, formatWide)
	output.addWatch(cmd)
	p.addViewFlags(cmd, &flags)
	p.addNodeFlag(cmd, &flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return p.list(cmd, flags, &output, (*Program).writeTop)
	}
	return cmd
}

// usageJSON is one launcher in the output of `top -o json`: bytes and thousandths of a CPU. A
// missing limit is 0.
type usageJSON struct {
	Node        string          `json:"node,omitempty"`
	Pod         agentapi.PodRef `json:"pod"`
	Container   string          `json:"container"`
	VMs         int             `json:"vms"`
	Memory      int64           `json:"memory"`
	MemoryLimit int64           `json:"memoryLimit"`
	Locked      int64           `json:"locked"`
	Pinned      int64           `json:"pinned"`
	// pages that the kernel adds up with Pinned; the least favourable of the VM processes
	PinnedPer agentapi.PinnedPer `json:"pinnedPer,omitempty"`
	Memlock   string             `json:"memlock,omitempty"`
	CPU       *int64             `json:"cpu,omitempty"` // absent: not sampled twice yet
	CPULimit  int64              `json:"cpuLimit"`
}

// usageOf adds up the VM processes of a launcher; ok is false without a sample.
func usageOf(l nodeLauncher) (u usageJSON, ok bool) {
	memlock := settingNamed(l.Launcher, agentapi.MemlockSetting)
	u = usageJSON{Node: l.Node, Pod: l.Pod, Container: l.Container.Name,
		MemoryLimit: l.Limits.Memory, CPULimit: l.Limits.CPU, Memlock: memlock.Given}
	for _, vm := range l.VMs {
		if vm.Usage == nil {
			continue
		}
		u.VMs++
		u.Memory += vm.Usage.Memory
		u.Locked += vm.Usage.Locked
		u.Pinned += vm.Usage.Pinned
		u.PinnedPer = worsePins(u.PinnedPer, vm.Usage.PinnedPer)
		if vm.Usage.CPU != nil {
			sum := *vm.Usage.CPU
			if u.CPU != nil {
				sum += *u.CPU
			}
			u.CPU = &sum
		}
	}
	return u, u.VMs > 0
}

func (p *Program) writeTop(v *view, output *outputFlags) error {
	p.writeNotes(slices.Concat(v.notes, pinNotes(v.launchers)))
	used := []usageJSON{}
	var shown []nodeLauncher
	for _, l := range v.launchers {
		if u, ok := usageOf(l); ok {
			used, shown = append(used, u), append(shown, l)
		}
	}
	if output.isData() {
		return output.writeData(p.Out, used, names(shown))
	}
	if len(used) == 0 {
		fmt.Fprintln(p.ErrOut, "no VM process with a sample "+v.where())
		return nil
	}
	return output.writeTable(p.Out, topRows(used, v.inCluster, output.isWide()))
}

func topRows(used []usageJSON, nodes, wide bool) [][]string {
	rows := [][]string{{"NAMESPACE", "POD", "MEMORY", "LIMIT", "MEMORY%", "LOCKED", "PINNED",
		"MEMLOCK", "CPU", "CPU LIMIT", "CPU%"}}
	if nodes {
		rows[0] = append(rows[0], "NODE")
	}
	if wide {
		rows[0] = append(rows[0], "CONTAINER", "VMS", "PINNED PER")
	}
	for _, u := range used {
		row := []string{u.Pod.Namespace, u.Pod.Name, mebibytes(u.Memory), limit(u.MemoryLimit),
			percent(u.Memory, u.MemoryLimit), mebibytes(u.Locked), mebibytes(u.Pinned), u.Memlock,
			"", millis(u.CPULimit), ""}
		if u.CPU != nil {
			row[8], row[10] = strconv.FormatInt(*u.CPU, 10)+"m", percent(*u.CPU, u.CPULimit)
		}
		if nodes {
			row = append(row, u.Node)
		}
		if wide {
			row = append(row, u.Container, strconv.Itoa(u.VMs), string(u.PinnedPer))
		}
		rows = append(rows, row)
	}
	return rows
}

// mebibytes rounds an amount as kubectl top does.
func mebibytes(bytes int64) string { return strconv.FormatInt(bytes>>20, 10) + "Mi" }

func limit(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return api.Bytes(bytes).String()
}

func millis(cpu int64) string {
	if cpu == 0 {
		return ""
	}
	return strconv.FormatInt(cpu, 10) + "m"
}

func percent(used, limit int64) string {
	if limit == 0 {
		return ""
	}
	return strconv.FormatInt(int64(100*float64(used)/float64(limit)), 10) + "%"
}
