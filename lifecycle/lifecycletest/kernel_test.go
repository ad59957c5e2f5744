package lifecycletest_test

import (
	"fmt"
	"path"
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

// machine is the [lifecycletest.Machine] of the fake.
type machine struct {
	kernel *lifecycletest.Kernel
	serial int
}

func (m *machine) Kernel() host.Kernel { return m.kernel }

func (m *machine) NewCgroup(_ *testing.T, parent string) string {
	m.serial++
	cgroup := path.Join("/", parent, fmt.Sprintf("test-%d", m.serial))
	m.kernel.Write(cgroup, "cgroup.type", "domain\n")
	return cgroup
}

func (m *machine) Start(_ *testing.T, cgroup string) int {
	m.serial++
	m.kernel.Start(m.serial, cgroup, host.Rlimit{Soft: 65536, Hard: 65536})
	m.kernel.SetArguments(m.serial, "cat")
	return m.serial
}

func (m *machine) Kill(_ *testing.T, pid int) { m.kernel.Exit(pid) }

func (m *machine) EndUnreaped(_ *testing.T, pid int) { m.kernel.ExitUnreaped(pid) }

func TestFakeKernel(t *testing.T) {
	lifecycletest.TestKernel(t, func(*testing.T) lifecycletest.Machine {
		return &machine{kernel: lifecycletest.NewKernel()}
	})
}

func TestFakeProcesses(t *testing.T) {
	lifecycletest.TestProcesses(t, func(*testing.T) (lifecycletest.Machine, supervisor.Processes) {
		m := &machine{kernel: lifecycletest.NewKernel()}
		return m, m.kernel
	})
}
