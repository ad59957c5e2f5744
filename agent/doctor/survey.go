package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// errNotChecked is the error for a source that the Machine does not provide.
var errNotChecked = errors.New("not checked")

// survey holds facts that several checks need. newSurvey gathers them once.
type survey struct {
	Machine
	runtime    Runtime
	runtimeErr error
	agent      Agent
	agentErr   error
	config     containerdConfig
	configErr  error
}

func newSurvey(ctx context.Context, m Machine) *survey {
	s := &survey{Machine: m, runtimeErr: errNotChecked, agentErr: errNotChecked}
	if m.Agent != nil {
		s.agent, s.agentErr = m.Agent(ctx)
	}
	if m.Runtime != nil {
		s.runtime, s.runtimeErr = m.Runtime(ctx)
	}
	if s.runtimeErr != nil && s.agentErr == nil && s.agent.Runtime.Version != "" {
		known := s.agent.Runtime
		s.runtime, s.runtimeErr = Runtime{Name: known.Name, Version: known.Version}, nil
	}
	if s.runtime.PID == 0 {
		s.runtime.PID = s.onlyProcess("containerd")
	}
	s.config, s.configErr = s.readConfig(ctx)
	return s
}

// read returns the content of a file of the node, without surrounding blanks.
func (s *survey) read(path string) (string, error) {
	content, err := fs.ReadFile(s.Root, fsPath(path))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, withoutPath(err))
	}
	return strings.TrimSpace(string(content)), nil
}

// mounts returns the node's mounts. In a pod, /proc/mounts would have those of the container.
func (s *survey) mounts() (string, error) {
	if s.InPod {
		return s.read(procPath(1, "mounts"))
	}
	return s.read("/proc/mounts")
}

func (s *survey) exists(path string) bool {
	_, err := fs.Lstat(s.Root, fsPath(path))
	return err == nil
}

// installed reports whether an operator has installed Mooring on this node.
func (s *survey) installed() bool {
	return s.agentErr == nil || s.exists("/etc/mooring/policy.yaml") ||
		s.exists("/run/mooring/agent.sock.lock") ||
		s.exists("/etc/systemd/system/mooring-agent.service")
}

// problemIfInstalled returns the status for an absent part of Mooring.
func (s *survey) problemIfInstalled() Status {
	if s.installed() {
		return Problem
	}
	return Note
}

// containerd returns the version of the running containerd. ok is false for an unknown
// version and for another runtime.
func (s *survey) containerd() (v *version.Version, ok bool) {
	if s.runtimeErr != nil || s.runtime.Name != "containerd" {
		return nil, false
	}
	v, err := version.ParseGeneric(s.runtime.Version)
	return v, err == nil
}

// fsPath turns an absolute path into the form of fs.FS.
func fsPath(path string) string { return strings.TrimPrefix(path, "/") }

// withoutPath removes the path from an error of an fs.FS: it lacks the leading slash.
func withoutPath(err error) error {
	if wrong, ok := errors.AsType[*fs.PathError](err); ok {
		return wrong.Err
	}
	return err
}
