//go:build cgo && libvirt_dlopen

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/internal/buildinfo"
	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/journal"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
)

// envRunShim makes the test binary run mooring-shim.
const envRunShim = "MOORING_TEST_AS_SHIM"

func TestMain(m *testing.M) {
	if os.Getenv(envRunShim) == "" {
		os.Exit(m.Run())
	}
	cmd := Command(buildinfo.Info{}, os.Stderr)
	cmd.SetArgs(os.Args[1:])
	if err := cmd.ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// rig is a VM on a private libvirtd, with mooring-shim as a separate process and a node behind the
// pod's socket.
type rig struct {
	*node
	daemon *libvirttest.Daemon
	virt.Domain
	dir     string       // of the journal and the agent's socket
	cleanup func(func()) // registers a function for the test's end
	log     io.Writer

	mu         sync.Mutex
	shim       *exec.Cmd
	shimExited chan struct{}
}

func newRig(t *testing.T, o headroom.Options, options ...string) *rig {
	t.Helper()
	if testing.Short() {
		t.Skip("left out with -short: boots a guest")
	}
	daemon := libvirttest.Start(t, true)
	r := &rig{daemon: daemon, dir: daemon.Dir, cleanup: t.Cleanup, log: t.Output()}
	if err := os.Mkdir(r.journal(), 0o700); err != nil {
		t.Fatal(err)
	}
	r.boot(t, o, options...)
	r.node = newNode(t, filepath.Join(r.dir, "agent.sock"))
	r.startShim(t)
	return r
}

func (r *rig) journal() string { return filepath.Join(r.dir, "journal") }

// boot boots a guest of 256 MiB with headroom.
func (r *rig) boot(t *testing.T, o headroom.Options, options ...string) {
	t.Helper()
	vm := r.daemon.LinuxVM(t, options...)
	vm.NoHeadroom, vm.Memory = true, int(booted>>20)
	o.Memory, o.CPUs = 1024, 8
	prepared, err := headroom.Prepare([]byte(vm.XML(t)), o)
	must(t, err)
	if err := libvirt.StartEvents(); err != nil {
		libvirttest.Require(t, err.Error())
	}
	c, err := libvirt.Open(
		t.Context(), r.daemon.URI, libvirt.Options{MaxBackoff: time.Second},
	) // waits for libvirtd
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	r.daemon.BootDefined(t, string(prepared.XML))
	r.Domain, err = c.Domain(t.Context(), libvirttest.Name)
	must(t, err)
	eventually(t, "the guest answers", func() bool { return r.state(t).VCPUs.Online == 1 })
}

func (r *rig) state(t *testing.T) virt.State {
	t.Helper()
	s, err := r.State(t.Context())
	must(t, err)
	return s
}

// startShim starts a mooring-shim process.
func (r *rig) startShim(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(
		context.WithoutCancel(t.Context()), os.Args[0], "run", "--connect="+r.daemon.URI,
		"--journal="+r.journal(), "--agent="+r.socket, "--stop-file=", "--overhead=1Gi",
	)
	cmd.Env = append(os.Environ(), envRunShim+"=1")
	cmd.Stdout, cmd.Stderr = r.log, r.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, cmd.Start())
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // fails, because the test kills the process
	}()
	r.mu.Lock()
	r.shim, r.shimExited = cmd, exited
	r.mu.Unlock()
	r.cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
	})
}

// killShim kills the shim and waits for its end.
func (r *rig) killShim() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.shim.Process.Kill()
	<-r.shimExited
}

// shimHasExited reports whether the shim has ended.
func (r *rig) shimHasExited() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.shimExited:
		return true
	default:
		return false
	}
}

// record reads the journal.
func (r *rig) record() (resize.Record, error) {
	file, err := journal.Open(r.journal())
	if err != nil {
		return resize.Record{}, err
	}
	record, err := file.Load()
	return record, errors.Join(err, file.Close())
}

// moment describes the state of a resize at a request to the agent.
func (r *rig) moment(question string) string {
	record, err := r.record()
	if err != nil || record.Started == 0 {
		return fmt.Sprintf("%s %s", question, record.Phase)
	}
	progress := "under way"
	if record.Started == record.Confirmed {
		progress = "done"
	}
	return fmt.Sprintf(
		"%s %s, %T %s", question, record.Phase, record.Steps[record.Started-1], progress,
	)
}

// outcome returns the final report of a resize; false: it is still running.
func (r *rig) outcome(generation uint64) (podapi.Report, bool) {
	report, ok := r.lastReport()
	return report, ok && report.Generation >= generation && report.State != podapi.StateResizing
}

// expectDone checks the VM's size, the ended journal, the memory requirement and the end of the
// block on migrations.
func (r *rig) expectDone(t *testing.T, report podapi.Report, memory uint64) {
	t.Helper()
	if report.State != podapi.StateDone {
		t.Fatalf("report %+v, want %s", report, podapi.StateDone)
	}
	s := r.state(t)
	if s.Memory.Balloon != memory || s.Memory.Devices[0].Requested != s.Memory.Devices[0].Current {
		t.Errorf("memory %+v, want %d", s.Memory, memory)
	}
	record, err := r.record()
	if err != nil || record.Phase != resize.Ended || record.Report == nil ||
		!record.Report.TargetReached {
		t.Errorf("journal %+v, %v, want an ended resize", record, err)
	}
	eventually(
		t, "the agent knows the memory requirement",
		func() bool { return r.memoryRequirement() == memory+gi },
	)
	eventually(t, "migrations are allowed", func() bool { return !r.migrationsBlocked.Load() })
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// eventually polls the condition, with time for emulated guests on busy machines.
func eventually(t *testing.T, condition string, met func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !met() {
		if ctx.Err() != nil {
			t.Fatalf("never met: %s", condition)
		}
		<-tick.C
	}
}

var _ net.Listener = (*cuttableListener)(nil)

// cuttableListener can cut all its connections, as the death of its process does.
type cuttableListener struct {
	net.Listener
	mu     sync.Mutex
	open   []net.Conn
	closed bool
}

func (c *cuttableListener) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && c.closed {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	if err == nil {
		c.open = append(c.open, conn)
	}
	return conn, err
}

func (c *cuttableListener) cut() {
	_ = c.Listener.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, conn := range c.open {
		_ = conn.Close()
	}
}

var discard = slog.New(slog.DiscardHandler)
