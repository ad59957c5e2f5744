package headroom

import (
	"fmt"
	"strconv"

	"k8s.io/utils/cpuset"
)

// applyCells distributes the new vCPUs to the NUMA cells in whole sockets. It adds a cell if memory
// will be plugged, because memory is plugged into a cell.
func (p *plan) applyCells() {
	switch {
	case len(p.cells) > 0 && p.growsVCPUs():
		p.extendCells()
	case len(p.cells) == 0 && p.growsMemory():
		p.addCell()
	}
	if len(p.cells) > 1 && p.device == VirtioMem {
		p.addNote("NUMA: all new memory goes to cell 0")
	}
}

func (p *plan) extendCells() {
	cells := p.cellsWithVCPUs()
	next, remaining := p.vcpuMaximum, (p.newVCPUMaximum-p.vcpuMaximum)/p.perSocket
	for i, c := range cells {
		share := remaining / (len(cells) - i)
		remaining -= share
		vcpus := c.vcpus.Union(vcpuRange(next, next+share*p.perSocket))
		next += share * p.perSocket
		if share > 0 {
			p.setAttr(c.element, "cpus", vcpus.String())
			p.addNote("NUMA: cell %s gets the vCPUs %s", c.id, vcpus)
		}
	}
}

// cellsWithVCPUs returns the cells with vCPUs. If no cell lists vCPUs, the first cell has them all.
func (p *plan) cellsWithVCPUs() (found []cell) {
	for _, c := range p.cells {
		if c.vcpus.Size() > 0 {
			found = append(found, c)
		}
	}
	if found != nil {
		return found
	}
	return []cell{{p.cells[0].element, p.cells[0].id, vcpuRange(0, p.vcpuMaximum)}}
}

func (p *plan) addCell() {
	last := max(p.vcpuMaximum, p.newVCPUMaximum) - 1
	numa := node{name: "numa", children: []node{{name: "cell", attrs: []string{
		"id",
		"0",
		"cpus",
		fmt.Sprintf("0-%d", last),
		"memory",
		strconv.FormatUint(p.Memory, 10),
		"unit",
		"KiB",
	}}}}
	p.addNote("NUMA: one cell with all vCPUs and all memory, because memory is plugged into cells")
	cpu := p.root.first("cpu")
	switch {
	case cpu == nil:
		p.appendChild(p.root, node{name: "cpu", children: []node{numa}})
	case cpu.first("numa") != nil:
		p.appendChild(cpu.first("numa"), numa.children[0])
	default:
		p.appendChild(cpu, numa)
	}
}

func vcpuRange(from, to int) cpuset.CPUSet {
	all := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		all = append(all, i)
	}
	return cpuset.New(all...)
}
