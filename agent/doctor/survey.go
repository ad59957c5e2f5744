package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// errNotAsked is the error of what the machine has no means to ask.
var errNotAsked = errors.New("not asked")

// survey is what several checks need, gathered once.
type survey struct {
	Machine
	runtime    Runtime
	runtimeErr error
	agent      Agent
	agentErr   error
	config     config
	configErr  error
}

func newSurvey(ctx context.Context, m Machine) *survey {
	s := &survey{Machine: m, runtimeErr: errNotAsked, agentErr: errNotAsked}
	if m.Agent != nil {
		s.agent, s.agentErr = m.Agent(ctx)
	}
	if m.Runtime != nil {
		s.runtime, s.runtimeErr = m.Runtime(ctx)
	}
	if s.runtimeErr != nil && s.agentErr == nil && s.agent.Runtime.Version != "" {
		s.runtime, s.runtimeErr = Runtime{Name: s.agent.Runtime.Name, Version: s.agent.Runtime.Version}, nil
	}
	if s.runtime.PID == 0 {
		s.runtime.PID = s.onlyProcess("containerd")
	}
	if s.config, s.configErr = loadConfig(m.Root, s.configPath()); s.runtimeErr == nil && s.runtime.Name != "containerd" {
		s.config, s.configErr = config{}, fmt.Errorf("the runtime is %s: only containerd's configuration is understood", s.runtime.Name)
	}
	return s
}

// read returns a file of the node, without the blanks around its content.
func (s *survey) read(path string) (string, error) {
	content, err := fs.ReadFile(s.Root, inside(path))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, cause(err))
	}
	return strings.TrimSpace(string(content)), nil
}

func (s *survey) exists(path string) bool {
	_, err := fs.Lstat(s.Root, inside(path))
	return err == nil
}

// installed reports whether somebody has meant Mooring to run here.
func (s *survey) installed() bool {
	return s.agentErr == nil || s.exists("/etc/mooring/policy.yaml") || s.exists("/run/mooring/agent.sock.lock") ||
		s.exists("/etc/systemd/system/mooring-agent.service")
}

// problemIfInstalled is for what is missing as long as nobody has installed Mooring.
func (s *survey) problemIfInstalled() Status {
	if s.installed() {
		return Problem
	}
	return Note
}

// containerd returns the version of the containerd that runs; ok is false when it
// is not known, or another runtime.
func (s *survey) containerd() (v *version.Version, ok bool) {
	if s.runtimeErr != nil || s.runtime.Name != "containerd" {
		return nil, false
	}
	v, err := version.ParseGeneric(s.runtime.Version)
	return v, err == nil
}

// inside turns an absolute path into one that fs.FS takes.
func inside(path string) string { return strings.TrimPrefix(path, "/") }
