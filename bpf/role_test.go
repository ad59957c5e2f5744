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

// roleKey names, in the environment, what this test program is to be instead.
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

// play starts this test program in a role.
func play(t testing.TB, in *cgroup, role string, env ...string) *child {
	t.Helper()
	return start(t, in, playing(role, env...))
}

func playing(role string, env ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(append(os.Environ(), roleKey+"="+role), env...)
	return cmd
}

// told waits for a line from the test.
func told() {
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

// spawnRole starts a program as Go does, by CLONE_VFORK and CLONE_VM.
func spawnRole() error {
	cmd := exec.Command("/bin/sh", "-c", "echo $$; read line")
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	return cmd.Run()
}

// cloneParentRole has a child that is its parent's, says its number and ends.
func cloneParentRole() error {
	pid, err := clonetest.Child{Flags: unix.CLONE_PARENT, Code: clonetest.Forever}.Start()
	if err == nil {
		fmt.Println(pid)
	}
	return err
}

// leaderFirstRole ends its first thread, and after a line all others with 5.
func leaderFirstRole() error {
	go func() {
		told()
		os.Exit(5)
	}()
	if unix.Gettid() != unix.Getpid() {
		return fmt.Errorf("thread %d is not the first of process %d", unix.Gettid(), unix.Getpid())
	}
	fmt.Println(unix.Getpid())
	_, _, err := unix.Syscall(unix.SYS_EXIT, 3, 0, 0)
	return err
}

// raceRole has many threads end the process at once.
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

// execThreadRole executes a shell from a thread that is not the first.
func execThreadRole() error {
	runtime.LockOSThread() // the first thread, most likely, so that it is not the other
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

// sysExitRole has a child that ends with 9 by exit(2) of its only thread, and says
// its number.
func sysExitRole() error {
	pid, err := clonetest.Child{Signal: unix.SIGCHLD, Code: 9}.Start()
	if err != nil {
		return err
	}
	fmt.Println(pid)
	_, err = unix.Wait4(pid, nil, 0, nil)
	return err
}

// stormRole starts processes, each of which starts another, until it is told to
// end by SIGTERM. It then says how many.
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
