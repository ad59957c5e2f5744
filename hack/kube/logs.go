package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// tailLines is the number of lines of each log in the error when a program does not start.
const tailLines = 15

// log opens the log file of a program. A restarted program continues the file.
func (c *ControlPlane) log(name string) (*os.File, error) {
	for _, f := range c.logs {
		if filepath.Base(f.Name()) == name {
			return f, nil
		}
	}
	f, err := os.OpenFile(filepath.Join(c.temp.Dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND,
		0o600)
	if err != nil {
		return nil, err
	}
	c.logs = append(c.logs, f)
	return f, nil
}

// Logs are the paths of the programs' logs. Stop removes them.
func (c *ControlPlane) Logs() []string {
	var paths []string
	for _, f := range c.logs {
		paths = append(paths, f.Name())
	}
	return paths
}

func (c *ControlPlane) tails() string {
	var b strings.Builder
	for _, path := range c.Logs() {
		content, err := os.ReadFile(path)
		if err != nil {
			content = []byte(err.Error())
		}
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		fmt.Fprintf(&b, "the end of %s:\n%s\n", filepath.Base(path),
			strings.Join(lines[max(0, len(lines)-tailLines):], "\n"))
	}
	return b.String()
}
