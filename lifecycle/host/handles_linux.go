package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// maxArguments bounds the read of a command line, in bytes.
const maxArguments = 64 << 10

// LinuxProcesses opens pidfd handles of processes. Opening one needs no capability. Signals to
// other users' processes need CAP_KILL.
type LinuxProcesses struct {
	kernel *LinuxKernel
	epoll  int
	stop   int // an eventfd with key 0

	mu      sync.Mutex
	handles map[uint64]*pidfd // by key, because file descriptors are reused and keys are not
	last    uint64            // key

	done chan struct{} // closed after the last notification
	err  error         // reason, except for Close; read it after done
}

// NewLinuxProcesses starts to wait for the end of processes. Close stops it.
func NewLinuxProcesses(kernel *LinuxKernel) (*LinuxProcesses, error) {
	l := &LinuxProcesses{kernel: kernel, handles: map[uint64]*pidfd{}, done: make(chan struct{})}
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("wait for the end of processes: %w", err)
	}
	l.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err == nil {
		err = l.listen(l.stop, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wait for the end of processes: %w", err),
			unix.Close(l.epoll))
	}
	go l.wait()
	return l, nil
}

// Close stops waiting. Close all handles first.
func (l *LinuxProcesses) Close() error {
	_, err := unix.Write(l.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	<-l.done
	return errors.Join(err, unix.Close(l.stop), unix.Close(l.epoll))
}

func (l *LinuxProcesses) listen(fd int, key uint64) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(uint32(key)),
		Pad: int32(uint32(key >> 32))}
	return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &event)
}

// Wait blocks until ctx is done, or until it can no longer wait for the end of processes. The agent
// must then stop, because it would miss the end of VMs. Close is no error.
func (l *LinuxProcesses) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-l.done:
		return l.err
	}
}

// wait notifies about processes that end, until Close.
func (l *LinuxProcesses) wait() {
	defer close(l.done)
	events := make([]unix.EpollEvent, 64)
	for {
		n, err := unix.EpollWait(l.epoll, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			l.err = fmt.Errorf("wait for the end of processes: %w", err)
			return
		}
		for _, e := range events[:max(n, 0)] {
			key := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
			if key == 0 {
				return
			}
			l.notifyEnd(key)
		}
	}
}

// notifyEnd calls the callback of a handle once, after the end of its process.
func (l *LinuxProcesses) notifyEnd(key uint64) {
	l.mu.Lock()
	var ended func()
	if h := l.handles[key]; h != nil {
		ended, h.ended = h.ended, nil
		_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, h.fd, nil)
	}
	l.mu.Unlock()
	if ended != nil {
		ended()
	}
}

// OpenHandle implements [supervisor.Processes].
func (l *LinuxProcesses) OpenHandle(p Process, ended func()) (Handle, error) {
	fd, err := l.kernel.open(p)
	if err != nil {
		return nil, err
	}
	if err := checkNotEnded(fd); err != nil {
		return nil, errors.Join(fmt.Errorf("process %d: %w", p.PID, err), unix.Close(fd))
	}
	l.mu.Lock()
	l.last++
	h := &pidfd{holder: l, key: l.last, pid: p.PID, fd: fd, ended: ended}
	l.handles[h.key] = h
	err = l.listen(fd, h.key)
	l.mu.Unlock()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wait for the end of process %d: %w", p.PID, err),
			h.Close())
	}
	return h, nil
}

// checkNotEnded returns ErrGone after the end of all threads of a process, also of a zombie.
func checkNotEnded(pidfd int) error {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	switch n, err := unix.Poll(fds, 0); {
	case err != nil && !errors.Is(err, unix.EINTR):
		return fmt.Errorf("poll its pidfd: %w", err)
	case n > 0:
		return fmt.Errorf("all its threads have ended: %w", ErrGone)
	}
	return nil
}

// pidfd is an open process. Its signals reach this process or none, even if the pid was reused.
type pidfd struct {
	holder *LinuxProcesses
	key    uint64
	pid    int

	fd    int    // -1: closed
	ended func() // nil after the call; both fields need the lock of holder
}

// Terminate implements [Handle].
func (h *pidfd) Terminate() error { return h.signal(unix.SIGTERM) }

// Kill implements [Handle].
func (h *pidfd) Kill() error { return h.signal(unix.SIGKILL) }

func (h *pidfd) signal(sig unix.Signal) error {
	h.holder.mu.Lock()
	defer h.holder.mu.Unlock()
	if err := unix.PidfdSendSignal(h.fd, sig, nil, 0); err != nil {
		return fmt.Errorf("send %s to process %d: %w", unix.SignalName(sig), h.pid,
			goneIf(err, unix.ESRCH))
	}
	return nil
}

// Close implements [Handle].
func (h *pidfd) Close() error {
	h.holder.mu.Lock()
	defer h.holder.mu.Unlock()
	if h.fd < 0 {
		return nil
	}
	fd := h.fd
	delete(h.holder.handles, h.key)
	h.ended, h.fd = nil, -1
	return unix.Close(fd)
}

// Members implements [supervisor.Processes].
func (l *LinuxProcesses) Members(cgroup string) ([]Process, error) {
	all, err := l.kernel.Processes(cgroup)
	if errors.Is(err, ErrGone) {
		return nil, nil
	}
	return all, err
}

// Identify implements [supervisor.Processes].
func (l *LinuxProcesses) Identify(pid int) (Process, error) {
	p, err := l.kernel.identify(pid)
	if err != nil {
		return Process{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	return p, nil
}

// Arguments implements [supervisor.Processes].
func (l *LinuxProcesses) Arguments(p Process) ([]string, error) {
	data, err := l.kernel.commandLine(p.PID)
	if err == nil {
		err = l.kernel.verify(p)
	}
	if err != nil {
		return nil, fmt.Errorf("command line of process %d: %w", p.PID, err)
	}
	var args []string
	for arg := range bytes.SplitSeq(bytes.TrimSuffix(data, []byte{0}), []byte{0}) {
		args = append(args, string(arg))
	}
	return args, nil
}

func (k *LinuxKernel) commandLine(pid int) ([]byte, error) {
	f, err := os.Open(filepath.Join(k.proc, strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return nil, procError(pid, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxArguments))
	return data, procError(pid, err)
}

// KillCgroup implements [supervisor.Processes], with cgroup.kill (Linux 5.14).
func (l *LinuxProcesses) KillCgroup(cgroup string) error {
	file := filepath.Join(l.kernel.cgroup, cgroup, "cgroup.kill")
	if err := os.WriteFile(file, []byte("1"), 0); err != nil {
		return fmt.Errorf("kill cgroup %s: %w", cgroup, goneIf(err, unix.ENOENT, unix.ENODEV))
	}
	return nil
}

// PodCgroupExists implements [supervisor.Processes].
func (l *LinuxProcesses) PodCgroupExists(uid string) (bool, error) {
	return l.kernel.PodCgroupExists(uid)
}

// Exists implements [supervisor.Processes].
func (l *LinuxProcesses) Exists(cgroup string) (bool, error) {
	_, err := os.Stat(filepath.Join(l.kernel.cgroup, cgroup))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
