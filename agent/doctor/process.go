package doctor

import (
	"fmt"
	"io/fs"
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

// commandFlag returns the value of a flag in a process's command line, or "".
func (s *survey) commandFlag(pid int, names ...string) string {
	line, err := s.read(procPath(pid, "cmdline"))
	if err != nil {
		return ""
	}
	args := strings.Split(strings.TrimRight(line, "\x00"), "\x00")
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
