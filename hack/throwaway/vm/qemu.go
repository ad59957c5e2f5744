package vm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/mooring-vm/mooring/hack/throwaway/channel"
)

// Config describes the guest to boot.
type Config struct {
	Kernel, Disk string
	// QEMU is the root of a tree with QEMU and its libraries.
	QEMU string
	// Accelerator is TCG or KVM.
	Accelerator Accelerator
	// Port of 127.0.0.1 leads to the node's command channel.
	Port int
	// AuthorizedKey is the public key that the command channel accepts, in base64.
	AuthorizedKey string
	CPUs          int
	MemoryMiB     int
	// Forwards are more ports of the node that 127.0.0.1 leads to.
	Forwards []Forward
	// Link is the node's end of a cable to another node, or nil.
	Link *Link
	// Saving describes a node that QEMU can save. Nil is the node of the tests.
	Saving *Saving
	// Console receives the node's console output.
	Console io.Writer
}

// Forward leads a port of 127.0.0.1 to a port of the node's address.
type Forward struct{ Local, Node int }

// process is a running QEMU. It ends at the latest with this process.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error
	stderr headBuffer
}

// program starts QEMU through the loader of its own tree. QEMU and the libraries of this machine
// may be too old.
func (c Config) program() []string {
	in := func(path string) string { return filepath.Join(c.QEMU, path) }
	return []string{
		in("lib64/ld-linux-x86-64.so.2"), "--argv0", "qemu-system-x86_64",
		"--library-path", in("usr/lib/x86_64-linux-gnu"),
		in("usr/bin/qemu-system-x86_64"),
		"-L", in("usr/share/qemu"), "-L", in("usr/share/seabios"),
	}
}

// machine returns the arguments that all guests share.
func (c Config) machine() []string {
	return []string{
		"-accel", string(c.Accelerator), "-cpu", c.Accelerator.cpu(), "-machine", "q35",
		"-smp", strconv.Itoa(c.CPUs), "-m", strconv.Itoa(c.MemoryMiB),
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none",
		"-serial", "stdio", "-kernel", c.Kernel,
	}
}

func (c Config) args() []string {
	args := append(c.machine(), "-append", c.kernelParameters(),
		"-netdev", c.network(),
		"-device", "virtio-net-pci,netdev=net,romfile=",
		"-device", "virtio-rng-pci",
	)
	if c.Link != nil {
		args = append(args, c.Link.args()...)
	}
	if c.Saving != nil {
		return append(args, c.savableDevices()...)
	}
	return append(args,
		// VFIO needs an IOMMU and, in the tests, two unused network controllers.
		"-device", "intel-iommu,intremap=on",
		"-device", "e1000e,romfile=,addr=10.0",
		"-device", "e1000e,romfile=,addr=11.0",
		"-drive", c.drive()+",snapshot=on",
		"-device", "nvme,drive=root,serial=node",
	)
}

func (c Config) drive() string {
	return "file=" + escape(c.Disk) + ",format=raw,if=none,id=root,cache=unsafe,aio=threads"
}

func (c Config) network() string {
	net := fmt.Sprintf("user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:%d-10.0.2.15:22", c.Port)
	for _, f := range c.Forwards {
		net += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%d-10.0.2.15:%d", f.Local, f.Node)
	}
	return net
}

// escape doubles the commas in a value of a QEMU option.
func escape(value string) string { return strings.ReplaceAll(value, ",", ",,") }

func (c Config) kernelParameters() string {
	return strings.Join([]string{
		"root=" + c.rootDevice(), "rootfstype=ext4", "rw", "init=/lib/systemd/systemd",
		"console=ttyS0", "quiet", "panic=-1", "net.ifnames=0", "random.trust_cpu=on", "audit=0",
		"cgroup_no_v1=all", "lsm=capability,bpf",
		"intel_iommu=on", "iommu=pt", // pt: no translation except for VFIO
		// Speed counts more than protection in a node that lives for minutes.
		"mitigations=off", "nopti", "nokaslr", "tsc=nowatchdog", "no_timer_check",
		"systemd.show_status=0", "systemd.log_level=warning",
		channel.KeyParameter + c.AuthorizedKey,
	}, " ")
}

// start runs QEMU in its own process group: Ctrl-C in a terminal does not reach QEMU.
// PR_SET_PDEATHSIG ends QEMU with this process. The kernel sends this signal when the starting
// thread ends (golang.org/issue/27505), so the goroutine keeps its thread until QEMU has ended.
func start(c Config, args []string, lines func(string)) (*process, error) {
	p := &process{exited: make(chan struct{})}
	argv := append(c.program(), args...)
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	console, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := p.cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		readConsole(console, c.Console, lines)
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting QEMU: %w", err)
	}
	return p, nil
}

func readConsole(r io.Reader, w io.Writer, lines func(string)) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		_, _ = io.WriteString(w, line)
		lines(line)
		if err != nil {
			return
		}
	}
}

// stop kills QEMU. Its disk is a snapshot for this run only.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL) // os.Process signals by pidfd
	<-p.exited
}

// failure returns the reason for QEMU's end.
func (p *process) failure() error {
	if msg := p.stderr.String(); msg != "" {
		return fmt.Errorf("QEMU ended: %w: %s", errOf(p.err), msg)
	}
	return fmt.Errorf("QEMU ended: %w", errOf(p.err))
}

func errOf(err error) error {
	if err == nil {
		return errors.New("the node powered off")
	}
	return err
}

// headBuffer keeps the first 4 KiB of QEMU's standard error.
type headBuffer struct{ b strings.Builder }

func (t *headBuffer) Write(p []byte) (int, error) {
	if free := 4096 - t.b.Len(); free > 0 {
		t.b.Write(p[:min(free, len(p))])
	}
	return len(p), nil
}

func (t *headBuffer) String() string { return strings.TrimSpace(t.b.String()) }
