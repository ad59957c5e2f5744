package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// processes lists pids of descendants of this process.
type processes []int

// descendants lists the running descendants of this process, without one child and its descendants.
// The kernel assigns pids in ascending order, so a pid used at once still names the same process.
func descendants(except int) processes {
	children := childrenByParent()
	queue, found := []int{os.Getpid()}, processes{}
	for len(queue) > 0 {
		for _, pid := range children[queue[0]] {
			if pid != except {
				queue, found = append(queue, pid), append(found, pid)
			}
		}
		queue = queue[1:]
	}
	return slices.DeleteFunc(found, isZombie)
}

func (p processes) signal(s syscall.Signal) {
	for _, pid := range p {
		_ = syscall.Kill(pid, s) // it may have ended
	}
}

func childrenByParent() map[int][]int {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	children := map[int][]int{}
	for _, f := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			continue
		}
		if _, parent, ok := stateOf(pid); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	return children
}

// isZombie reports whether a process is a zombie or missing.
func isZombie(pid int) bool {
	state, _, ok := stateOf(pid)
	return !ok || state == "Z" || state == "X"
}

// stateOf reads the third and fourth field of /proc/PID/stat.
func stateOf(pid int) (state string, parent int, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, false
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 {
		return "", 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return fields[0], parent, err == nil
}
