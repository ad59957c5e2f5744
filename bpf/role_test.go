package bpf

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/bpf/clonetest"
)

// roleKey is the environment variable with the role of this test program.
const roleKey = "MOORING_BPF_TEST_ROLE"

func TestMain(m *testing.M) {
	roles := map[string]func() error{
		"spawn":        spawnRole,
		"clone parent": cloneParentRole,
		"leader first": leaderFirstRole,
		"race":         raceRole,
		"exec thread":  execThreadRole,
		"sys_exit":     sysExitRole,
		"rights":       func() error { return rightsRole(false) },
		"rights raw":   func() error { return rightsRole(true) },
		"nested":       nestedRole,
		"storm":        stormRole,
	}
	role, ok := roles[os.Getenv(roleKey)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := role(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// startRole starts this test program in a role.
func startRole(t testing.TB, in *cgroup, role string, env ...string) *child {
	t.Helper()
	return start(t, in, roleCommand(role, env...))
}

func roleCommand(role string, env ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(append(os.Environ(), roleKey+"="+role), env...)
	return cmd
}

// awaitLine waits for a line from the test.
func awaitLine() {
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

// spawnRole starts a program like os/exec, by CLONE_VFORK and CLONE_VM.
func spawnRole() error {
	cmd := exec.Command("/bin/sh", "-c", "echo $$; read line")
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	return cmd.Run()
}

// cloneParentRole starts a child with CLONE_PARENT, prints its number and exits.
func cloneParentRole() error {
	pid, err := clonetest.Child{Flags: unix.CLONE_PARENT, Code: clonetest.Forever}.Start()
	if err == nil {
		fmt.Println(pid)
	}
	return err
}

// leaderFirstRole ends its first thread, and after a line exits with code 5.
func leaderFirstRole() error {
	go func() {
		awaitLine()
		os.Exit(5)
	}()
	if unix.Gettid() != unix.Getpid() {
		return fmt.Errorf("thread %d is not the first of process %d", unix.Gettid(), unix.Getpid())
	}
	fmt.Println(unix.Getpid())
	_, _, err := unix.Syscall(unix.SYS_EXIT, 3, 0, 0)
	return err
}

// raceRole ends the process from many threads at once.
func raceRole() error {
	var ready sync.WaitGroup
	begin := make(chan struct{})
	for range 16 {
		ready.Add(1)
		go func() {
			runtime.LockOSThread()
			ready.Done()
			<-begin
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 6, 0, 0)
		}()
	}
	ready.Wait()
	close(begin)
	select {}
}

// execThreadRole executes a shell from a thread other than the first.
func execThreadRole() error {
	runtime.LockOSThread() // keeps the first thread, most likely, so the goroutine gets another
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			failed <- fmt.Errorf("thread %d is the first", unix.Gettid())
		}
		failed <- syscall.Exec("/bin/sh", []string{"sh", "-c", "exit 4"}, nil)
	}()
	return <-failed
}

// sysExitRole prints the number of a child. Its only thread ends by exit(2) with code 9.
func sysExitRole() error {
	pid, err := clonetest.Child{Signal: unix.SIGCHLD, Code: 9}.Start()
	if err != nil {
		return err
	}
	fmt.Println(pid)
	_, err = unix.Wait4(pid, nil, 0, nil)
	return err
}

// stormRole starts processes that each start another, until SIGTERM, and prints their number.
func stormRole() error {
	end := make(chan os.Signal, 1)
	signal.Notify(end, unix.SIGTERM)
	for n := 0; ; n++ {
		select {
		case <-end:
			fmt.Println(n)
			return nil
		default:
		}
		if err := exec.Command("/bin/sh", "-c", "(:) & (:); exit 0").Run(); err != nil {
			return fmt.Errorf("process %s: %w", strconv.Itoa(n), err)
		}
	}
}
