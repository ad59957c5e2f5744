package suite

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// busyFirmware is the file of a firmware on the node. The firmware writes to 2 MiB of its
// memory all the time, so that a migration at 1 MiB/s never ends.
const busyFirmware = "/opt/suite/restless.rom"

// busyFirmwareImage returns the firmware.
func busyFirmwareImage() []byte {
	const code, gdtr, gdt, reset = 0xff00, 0xff80, 0xff90, 0xfff0
	rom := make([]byte, 0x10000)
	copy(rom[reset:], []byte{0xe9, 0x0d, 0xff}) // jmp code
	copy(rom[code:], []byte{
		0xfa,                                     // cli
		0x2e, 0x66, 0x0f, 0x01, 0x16, 0x80, 0xff, // lgdt cs:gdtr
		0x0f, 0x20, 0xc0, 0x0c, 0x01, 0x0f, 0x22, 0xc0, // cr0 |= protected mode
		0xb8, 0x08, 0x00, 0x8e, 0xd8, // ds = all memory
		0x66, 0xbe, 0x00, 0x00, 0x10, 0x00, // again: esi = 1 MiB
		0x67, 0xfe, 0x06, // next: inc byte [esi]
		0x66, 0x81, 0xc6, 0x00, 0x10, 0x00, 0x00, // esi += 4 KiB
		0x66, 0x81, 0xfe, 0x00, 0x00, 0x30, 0x00, // esi < 3 MiB?
		0x72, 0xed, // then next
		0xeb, 0xe5, // else again
	})
	copy(rom[gdtr:], []byte{0x0f, 0x00, 0x90, 0xff, 0xff, 0xff}) // of gdt below 4 GiB
	// after the empty entry: data, from 0 on, 4 GiB
	copy(rom[gdt+8:], []byte{0xff, 0xff, 0x00, 0x00, 0x00, 0x93, 0xcf, 0x00})
	return rom
}

// A VM migrates between two pods, each with a libvirt and a sidecar of its own. Both sidecars
// request a lease from the agent. During the migration no sidecar resizes the VM. Afterwards the
// agent does not stop the source launcher for its missing VM. Each QEMU has the memory-lock limit of
// its own launcher, before the guest's memory arrives, and keeps it.
func TestLiveMigration(t *testing.T) {
	f := setUpVMs(t)
	f.pushShim(t)
	m := f.newMigration(t)
	m.startMigration(t)
	for _, v := range []*vm{m.source, m.target} {
		m.awaitLease(t, v, true)
	}
	if err := m.findVMProcess(t.Context(), m.target); err != nil {
		t.Fatal(err)
	}
	incoming := m.target.vmProcess
	m.checkLocks(t, m.source, m.target)
	m.cli(t, "resize", m.target.pod.Namespace+"/"+m.target.pod.Name, "--vcpus=3")
	m.awaitRounds(t, 2)
	for name, v := range map[string]*vm{"source": m.source, "target": m.target} {
		if got := m.vcpus(t, v, m.source.domain()); got != "1" {
			t.Errorf("the %s has %s vCPUs during the migration, want 1", name, got)
		}
	}
	m.finish(t)
	for _, v := range []*vm{m.source, m.target} {
		m.awaitLease(t, v, false)
	}
	m.checkTarget(t)
	if m.target.vmProcess != incoming {
		t.Errorf("the VM is process %v, and was %v during the migration", m.target.vmProcess,
			incoming)
	}
	m.checkLocks(t, m.target)
	for _, v := range []*vm{m.source, m.target} {
		m.neverReported(t, v.pod, agentapi.ReasonVMShutdown, agentapi.ReasonVMTerminated,
			agentapi.ReasonVMKilled, agentapi.ReasonStopRequested)
		if !m.isAlive(t, v.launcherProcess) {
			t.Errorf("the launcher of pod %s has ended", v.pod.Name)
		}
	}
}

// migration is the migration of a VM between two launchers.
type migration struct {
	fixture
	source, target *vm
	locks          map[*vm]int64 // memory-lock limits of the launchers in bytes
}

// The annotated values of the two launchers. The memory limit of the container, which is 1 GiB,
// comes on top.
const sourceLock, targetLock = "1Gi", "2Gi"

// withLock returns annotations for a VM that needs a memory lock.
func withLock(value string) map[string]string {
	return map[string]string{api.RequiresLockKey: "true", api.ValueKey: value}
}

func (f fixture) newMigration(t *testing.T) migration {
	t.Helper()
	if err := f.PushFrom(t.Context(), bytes.NewReader(busyFirmwareImage()), busyFirmware,
		0o644); err != nil {
		t.Fatal(err)
	}
	m := migration{fixture: f,
		target: f.runBesideSidecar(t, sidecarOptions{firmware: busyFirmware,
			annotations: withLock(targetLock)})}
	w := sidecarOptions{firmware: busyFirmware, annotations: withLock(sourceLock), prepare: []string{"--cpu-capacity=4"},
		peer: m.target.shared + "/run"}
	m.source = f.runBesideSidecar(t, w)
	for _, v := range []*vm{m.source, m.target} { // libvirt refuses a migration within one host
		f.inLauncher(t, v, fmt.Sprintf(`mkdir -p /tmp/.config/libvirt && echo 'host_uuid = "%s"' >/tmp/.config/libvirt/libvirtd.conf &&
			virsh -q -c qemu:///session list`, uuid.NewString()))
	}
	f.startWithSidecar(t, m.source, w)
	m.locks = map[*vm]int64{m.source: 2 * gib, m.target: 3 * gib}
	return m
}

// startMigration starts the migration at 1 MiB/s.
func (m migration) startMigration(t *testing.T) {
	t.Helper()
	migrate := "virsh -c qemu:///session migrate --live --bandwidth 1 " + m.source.domain() +
		" 'qemu+unix:///session?socket=/tmp/peer/libvirt/libvirt-sock' tcp://127.0.0.1 " +
		"--listen-address 127.0.0.1"
	m.inLauncher(t, m.source,
		"("+migrate+"; echo $? >/tmp/run/ended) >/tmp/run/migrate.log 2>&1 </dev/null &")
}

// virshOutput returns the output of virsh migrate.
func (m migration) virshOutput(t *testing.T) string {
	return m.output(t, "sh", "-c", `cat "$1/migrate.log" "$1/ended"; true`, "sh",
		m.source.shared+"/run")
}

func (m migration) awaitLease(t *testing.T, v *vm, holds bool) {
	t.Helper()
	var last *agentapi.Lease
	eventually(t, fmt.Sprintf("pod %s to have a lease: %t", v.pod.Name, holds), func() bool {
		last = m.inspect(t, v.pod).Lease
		return (last != nil) == holds &&
			(last == nil || strings.Contains(last.Reason, "a live migration"))
	}, func() string { return fmt.Sprintf("%+v; %s", last, m.virshOutput(t)) })
}

// checkLocks compares the kernel's memory-lock limit of each QEMU with that of its launcher.
func (m migration) checkLocks(t *testing.T, vms ...*vm) {
	t.Helper()
	for _, v := range vms {
		line := m.output(t, "grep", "^Max locked memory",
			fmt.Sprintf("/proc/%d/limits", v.vmProcess.pid))
		got, want := strings.Fields(line), fmt.Sprint(m.locks[v])
		if len(got) != 6 || got[3] != want || got[4] != want {
			t.Errorf("QEMU of pod %s has %q, want %s bytes twice", v.pod.Name, line, want)
		}
	}
}

// awaitRounds waits until QEMU has copied the memory some more times. In this time, the shims
// must not resize the VM.
func (m migration) awaitRounds(t *testing.T, times int) {
	t.Helper()
	enough := m.round(t) + times
	within(t, 2*waitTimeout, "the migration to continue",
		func() bool { return m.round(t) >= enough },
		func() string { return m.virshOutput(t) })
}

var iteration = regexp.MustCompile(`Iteration: +(\d+)`)

func (m migration) round(t *testing.T) int {
	t.Helper()
	found := iteration.FindStringSubmatch(m.inLauncher(t, m.source,
		"virsh -c qemu:///session domjobinfo "+m.source.domain()))
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// finish removes the speed limit and waits for the end of the migration.
func (m migration) finish(t *testing.T) {
	t.Helper()
	const speedUp = "virsh -q -c qemu:///session migrate-setspeed %[1]s 4096 && virsh -q -c " +
		"qemu:///session migrate-setmaxdowntime %[1]s 60000"
	m.inLauncher(t, m.source, fmt.Sprintf(speedUp, m.source.domain()))
	ended := func() string {
		return m.output(t, "sh", "-c", `cat "$1/run/ended"; true`, "sh", m.source.shared)
	}
	eventually(t, "the migration to end", func() bool { return ended() != "" },
		func() string { return m.virshOutput(t) })
	if ended() != "0" {
		t.Fatalf("virsh migrate: %s", m.virshOutput(t))
	}
}

// checkTarget checks that the VM runs in the target, and has the desired size there.
func (m migration) checkTarget(t *testing.T) {
	t.Helper()
	m.awaitEnd(t, m.source.vmProcess)
	if err := m.findVMProcess(t.Context(), m.target); err != nil {
		t.Fatal(err)
	}
	m.awaitVM(t, m.target, agentapi.VMRunning)
	m.resizeAndCheck(t, m.target, 3, 64, "--vcpus=3")
	if got := m.vcpus(t, m.target, m.source.domain()); got != "3" {
		t.Errorf("libvirt has %s vCPUs, want 3", got)
	}
}
