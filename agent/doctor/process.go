package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// processes returns the pids of the processes with this name in /proc/PID/comm.
func (s *survey) processes(name string) (pids []int) {
	entries, _ := fs.ReadDir(s.Root, "proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if comm, err := s.read(procPath(pid, "comm")); err == nil && comm == name {
			pids = append(pids, pid)
		}
	}
	return pids
}

// onlyProcess returns the pid of the only process with this name. It returns 0 for none and for
// several: containers may run programs of the same name.
func (s *survey) onlyProcess(name string) int {
	if pids := s.processes(name); len(pids) == 1 {
		return pids[0]
	}
	return 0
}

// commandLine returns the arguments of a process, beginning with its program.
func (s *survey) commandLine(pid int) ([]string, error) {
	line, err := s.read(procPath(pid, "cmdline"))
	return strings.Split(strings.TrimRight(line, "\x00"), "\x00"), err
}

// commandPath returns the path of a program in the command line of its process.
func (s *survey) commandPath(pid int, program string) (string, error) {
	args, err := s.commandLine(pid)
	if err == nil && (!path.IsAbs(args[0]) || path.Base(args[0]) != program) {
		err = fmt.Errorf("its command line begins with %q: want the path of %s", args[0], program)
	}
	return args[0], err
}

// commandFlag returns the value of a flag in a process's command line, or "".
func (s *survey) commandFlag(pid int, names ...string) string {
	args, err := s.commandLine(pid)
	if err != nil {
		return ""
	}
	for i, arg := range args {
		for _, name := range names {
			if value, ok := strings.CutPrefix(arg, name+"="); ok {
				return value
			}
			if arg == name && i+1 < len(args) {
				return args[i+1]
			}
		}
	}
	return ""
}

func procPath(pid int, file string) string { return fmt.Sprintf("/proc/%d/%s", pid, file) }
