// Command launcher is the program of the e2e suite's pods: a launcher with a VM, without libvirt and
// QEMU. The VM is a process of the program's second copy, which has an emulator's name.
//
//	launcher run [--vm [--stubborn] [--elsewhere]]
//	                        a launcher container; SIGTERM ends it and its VM
//	launcher limits [PID]   print RLIMIT_MEMLOCK in bytes, soft and hard
//	launcher processes      print pid and executable of each process
//	launcher kill PID       send SIGKILL
//	launcher list PATH...   print the entries below existing paths, two levels deep
//	launcher mounts SOURCE  print the mount points with this source
//
// A stubborn VM ignores SIGTERM. A VM elsewhere is in a cgroup outside of its pod.
// That needs a privileged container.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// emulator is the copy of this program that stands for a VM.
const emulator = "qemu-system-x86_64"

const commands = "run, limits, processes, kill, list or mounts"

func main() {
	if err := run(filepath.Base(os.Args[0]), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(name string, args []string) error {
	if name == emulator {
		return wait(slices.Contains(args, "stubborn"))
	}
	if len(args) == 0 {
		return errors.New("no command: want " + commands)
	}
	switch command, args := args[0], args[1:]; command {
	case "run":
		return launch(args)
	case "limits":
		return limits(args)
	case "processes":
		return processes()
	case "kill":
		return kill(args)
	case "list":
		return list(args)
	case "mounts":
		return mounts(args)
	default:
		return fmt.Errorf("command %q: want %s", command, commands)
	}
}

// wait returns after SIGTERM, or never if stubborn.
func wait(stubborn bool) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	for range signals {
		if !stubborn {
			break
		}
	}
	return nil
}

// launch starts a VM in a session of its own, as libvirt does, and ends it at SIGTERM.
func launch(args []string) error {
	if err := limits(nil); err != nil {
		return err
	}
	if !slices.Contains(args, "--vm") {
		return wait(false)
	}
	vm := exec.Command("/usr/bin/"+emulator, "-name", "guest=vm", "-machine", "q35")
	if slices.Contains(args, "--stubborn") {
		vm.Args = append(vm.Args, "stubborn")
	}
	vm.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := vm.Start(); err != nil {
		return err
	}
	fmt.Println("the VM runs as process", vm.Process.Pid)
	if slices.Contains(args, "--elsewhere") {
		if err := moveElsewhere(vm.Process.Pid); err != nil {
			return errors.Join(err, vm.Process.Kill())
		}
	}
	if err := wait(false); err != nil {
		return err
	}
	return errors.Join(vm.Process.Signal(syscall.SIGTERM), ignoreExit(vm.Wait()))
}

// moveElsewhere moves a process to a cgroup with the pod's name, outside of the pod's cgroup. The
// container runtime does not kill it there when the container ends.
func moveElsewhere(pid int) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	cgroup := filepath.Join("/sys/fs/cgroup/machine.slice", name+".scope")
	if err := os.MkdirAll(cgroup, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

func limits(args []string) error {
	pid := 0
	if len(args) > 0 {
		var err error
		if pid, err = strconv.Atoi(args[0]); err != nil {
			return err
		}
	}
	var l unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_MEMLOCK, nil, &l); err != nil {
		return err
	}
	fmt.Println("memlock", l.Cur, l.Max)
	return nil
}

func processes() error {
	found, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return err
	}
	for _, exe := range found {
		if to, err := os.Readlink(exe); err == nil {
			fmt.Println(strings.Split(exe, "/")[2], to)
		}
	}
	return nil
}

func kill(args []string) error {
	if len(args) != 1 {
		return errors.New("kill: want one pid")
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	p, err := os.FindProcess(pid) // a pidfd
	if err != nil {
		return err
	}
	return p.Kill()
}

func list(paths []string) error {
	for _, path := range paths {
		depth := strings.Count(filepath.Clean(path), "/")
		err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			fmt.Println(p)
			if d.IsDir() && strings.Count(p, "/") >= depth+2 {
				return fs.SkipDir
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func mounts(args []string) error {
	if len(args) != 1 {
		return errors.New("mounts: want one source")
	}
	all, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return m.Source != args[0], false
	})
	for _, m := range all {
		fmt.Println(m.Mountpoint, m.FSType)
	}
	return err
}
