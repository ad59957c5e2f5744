package headroom

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"github.com/mooring-vm/mooring/memlock/domain"
)

// machine is a domain as parsed from its XML.
type machine struct {
	*document
	domain.Definition // sizes in KiB, rounded up as libvirt does at the domain's start

	vcpuMaximum, vcpuCurrent int
	perSocket                int // vCPUs per socket; 1 without a topology
	sockets                  int // 0 without a topology
	cells                    []cell
	defaultPage              uint64 // KiB; the size of huge pages without a size in the XML
	hugePage                 uint64 // KiB; the largest huge page; 0: none

	repeatedDevice *element // see findRepeatedDevice; Definition excludes its size
}

// cell is a NUMA cell. vcpus is empty if the XML lists none.
type cell struct {
	*element
	id    string
	vcpus cpuset.CPUSet
}

// maxNumber bounds counts in a domain XML. libvirt accepts no more vCPUs.
const maxNumber = 1 << 14

// cpuList matches the lists that cpuset parses, with numbers below 100,000.
var cpuList = regexp.MustCompile(`^[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*$`)

// readMachine parses a domain. defaultPage is in MiB.
func readMachine(text []byte, defaultPage int64) (*machine, error) {
	root, malformed := parse(text)
	repeated := findRepeatedDevice(root)
	def, err := domain.Parse(blankOut(text, repeated))
	if err = cmp.Or(err, malformed); err != nil { // domain.Parse has the better message
		return nil, err
	}
	m := &machine{
		document:       &document{text: text, root: root},
		Definition:     def,
		repeatedDevice: repeated,
		defaultPage:    uint64(defaultPage) << 10,
	}
	for _, step := range []func() error{m.readVCPUs, m.readTopology, m.readCells, m.readHugePages} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("domain XML: %w", err)
		}
	}
	return m, nil
}

func (m *machine) readVCPUs() (err error) {
	m.vcpuMaximum, m.vcpuCurrent = 1, 1
	vcpu := m.root.first("vcpu")
	if vcpu == nil {
		return nil
	}
	if m.vcpuMaximum, err = parseCount("vcpu", vcpu.value()); err != nil {
		return err
	}
	m.vcpuCurrent = m.vcpuMaximum
	if current := vcpu.attr("current"); current != "" {
		if m.vcpuCurrent, err = parseCount("vcpu current", current); err != nil {
			return err
		}
	}
	if listed := m.root.first("vcpus").all("vcpu"); len(listed) > 0 {
		m.vcpuCurrent = countEnabled(listed)
	}
	if m.vcpuCurrent > m.vcpuMaximum {
		return fmt.Errorf(
			"vcpu: current %d: want at most %d, the number of vCPUs", m.vcpuCurrent, m.vcpuMaximum,
		)
	}
	return nil
}

// countEnabled counts enabled vCPUs. libvirt uses the list of vCPUs if the XML has one.
func countEnabled(vcpus []*element) (n int) {
	for _, v := range vcpus {
		if v.attr("enabled") == "yes" {
			n++
		}
	}
	return n
}

func (m *machine) readTopology() (err error) {
	m.perSocket = 1
	topology := m.root.first("cpu", "topology")
	if topology == nil {
		return nil
	}
	if m.sockets, err = parseCount("cpu/topology sockets", topology.attr("sockets")); err != nil {
		return err
	}
	for _, a := range topology.attrs {
		if a.Name.Local == "sockets" {
			continue
		}
		n, err := parseCount("cpu/topology "+a.Name.Local, a.Value)
		if err != nil {
			return err
		}
		if m.perSocket *= n; m.perSocket > maxNumber {
			return fmt.Errorf(
				"cpu/topology: %d vCPUs per socket: want at most %d", m.perSocket, maxNumber,
			)
		}
	}
	return nil
}

func (m *machine) readCells() error {
	for i, e := range m.root.first("cpu", "numa").all("cell") {
		c := cell{element: e, id: cmp.Or(e.attr("id"), strconv.Itoa(i)), vcpus: cpuset.New()}
		if text := strings.ReplaceAll(e.attr("cpus"), " ", ""); text != "" {
			if !cpuList.MatchString(text) {
				return fmt.Errorf(
					"cpu/numa/cell[%d] cpus %q: want numbers and ranges such as 0-3,8", i, text,
				)
			}
			var err error
			if c.vcpus, err = cpuset.Parse(text); err != nil {
				return fmt.Errorf("cpu/numa/cell[%d] cpus: %w", i, err)
			}
		}
		m.cells = append(m.cells, c)
	}
	return nil
}

// readHugePages uses defaultPage for huge pages without a size, because only the host knows their
// size.
func (m *machine) readHugePages() error {
	pages := m.root.first("memoryBacking", "hugepages")
	if pages == nil {
		return nil
	}
	all := pages.all("page")
	if m.hugePage = m.defaultPage; len(all) > 0 {
		m.hugePage = minBlock << 10
	}
	for i, page := range all {
		element := fmt.Sprintf("memoryBacking/hugepages/page[%d] size", i)
		size, err := strconv.ParseUint(page.attr("size"), 10, 64)
		if err != nil {
			return fmt.Errorf("%s %q: want a whole number", element, page.attr("size"))
		}
		if size, err = domain.Kibibytes(element, size, page.attr("unit")); err != nil {
			return err
		}
		m.hugePage = max(m.hugePage, size)
	}
	return nil
}

func parseCount(name, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxNumber {
		return 0, fmt.Errorf("%s: %q: want a number from 1 to %d", name, text, maxNumber)
	}
	return n, nil
}
