package main

import (
	"fmt"
	"strings"
)

// nodesDefault is the memory lock of a container that nobody gives another one.
const nodesDefault = "the node's default"

// want is what a scenario must come to: refused, or running with a memory lock
// and cgroup files.
type want struct {
	// refusal holds what the message must contain; empty where the container
	// must run.
	refusal []string
	memlock string
	files   []file
}

// file is one of the container's cgroup, as the kernel shows it.
type file struct{ name, value string }

// outcome is what a scenario came to.
type outcome struct {
	refusal string
	memlock string
	files   []file
}

// check returns in which points an outcome is another than wanted. The node's
// default is a container's memory lock where nothing gives it another.
func (w want) check(o outcome, nodesMemlock string) []string {
	if len(w.refusal) > 0 {
		return w.checkRefusal(o.refusal)
	}
	if o.refusal != "" {
		return []string{"refused, and it should run"}
	}
	var wrong []string
	memlock := w.memlock
	if memlock == nodesDefault {
		memlock = nodesMemlock
	}
	if o.memlock != memlock {
		wrong = append(wrong, fmt.Sprintf("RLIMIT_MEMLOCK should be %s", memlock))
	}
	for i, f := range w.files {
		if i >= len(o.files) || o.files[i] != f {
			wrong = append(wrong, fmt.Sprintf("%s should be %s", f.name, f.value))
		}
	}
	return wrong
}

func (w want) checkRefusal(message string) []string {
	if message == "" {
		return []string{"it runs, and should be refused"}
	}
	var wrong []string
	for _, part := range w.refusal {
		if !strings.Contains(message, part) {
			wrong = append(wrong, fmt.Sprintf("the message should contain %s", part))
		}
	}
	return wrong
}

// lines is the outcome for people.
func (o outcome) lines() []string {
	if o.refusal != "" {
		return []string{"refused: " + o.refusal}
	}
	lines := []string{"RLIMIT_MEMLOCK " + o.memlock}
	for _, f := range o.files {
		lines = append(lines, f.name+" "+f.value)
	}
	return lines
}
