package main

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// defaultLock stands for the memory lock of a container that Mooring does not change.
const defaultLock = "the node's default"

// expectation is the required result of starting a pod: refused, or running with a memory lock and
// cgroup files.
type expectation struct {
	// refusal holds parts of the refusal. It is empty for a container that must run.
	refusal []string
	memlock string
	files   []cgroupFile
}

// cgroupFile is a file of the container's cgroup and its content.
type cgroupFile struct{ name, content string }

// outcome is the actual result of starting a pod.
type outcome struct {
	refusal string
	memlock string
	files   []cgroupFile
}

// compare returns the points in which an outcome differs from the expectation. nodeLock is the
// node's default memory lock.
func (e expectation) compare(o outcome, nodeLock string) []string {
	if len(e.refusal) > 0 {
		return e.compareRefusal(o.refusal)
	}
	if o.refusal != "" {
		return []string{"refused, but should run: " + o.refusal}
	}
	var wrong []string
	memlock := e.memlock
	if memlock == defaultLock {
		memlock = nodeLock
	}
	if o.memlock != memlock {
		wrong = append(wrong, fmt.Sprintf("RLIMIT_MEMLOCK is %s, should be %s", o.memlock, memlock))
	}
	for i, f := range e.files {
		if i >= len(o.files) || o.files[i] != f {
			wrong = append(wrong, fmt.Sprintf("%s should be %s", f.name, f.content))
		}
	}
	return wrong
}

func (e expectation) compareRefusal(message string) []string {
	if message == "" {
		return []string{"runs, but should be refused"}
	}
	var wrong []string
	for _, part := range e.refusal {
		if !strings.Contains(message, part) {
			wrong = append(wrong, fmt.Sprintf("the refusal should contain %s: %s", part, message))
		}
	}
	return wrong
}

// String describes the outcome in one line.
func (o outcome) String() string {
	if o.refusal != "" {
		return "refused: " + o.refusal
	}
	words := []string{"RLIMIT_MEMLOCK is " + o.memlock}
	for _, f := range o.files {
		words = append(words, f.name+" is "+quantity(f.content))
	}
	return strings.Join(words, ", ")
}

// quantity writes a number of bytes from 1Ki on as a quantity such as 5Gi. Other text stays.
func quantity(text string) string {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 1<<10 {
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
	return text
}

// limitOf turns "SOFT HARD" of prlimit into one quantity if both are equal.
func limitOf(prlimit string) string {
	var words []string
	for word := range strings.FieldsSeq(prlimit) {
		words = append(words, quantity(word))
	}
	if len(words) == 2 && words[0] == words[1] {
		return words[0]
	}
	return "soft " + strings.Join(words, ", hard ")
}
