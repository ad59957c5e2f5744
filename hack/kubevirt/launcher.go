package kubevirt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	virtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

const launcherProgram = "launcher"

// Request describes the VM to define.
type Request struct {
	VMI      *virtv1.VirtualMachineInstance `json:"vmi"`      // as written by the user
	Emulated bool                           `json:"emulated"` // a node without KVM
	// the cluster's rollout strategy; otherwise Stage
	LiveUpdate  bool     `json:"liveUpdate"`
	CPUSet      []int    `json:"cpuSet"`      // of the launcher's container
	HostDevices []string `json:"hostDevices"` // PCI addresses from device plugins

	// Defined is libvirt's inactive XML of the first definition. It makes this a request for the
	// second definition. virt-launcher defines a domain first with additional interfaces for their
	// ports, and then without them, with all devices at their old places.
	Defined string `json:"defined"`
}

// Definition is a domain XML on its way from virt-launcher to libvirt.
type Definition struct {
	BeforeHooks string // for the hook sidecar
	AfterHooks  string // for libvirt: the sidecar's answer
	Parsed      string // the answer as virt-launcher parses it
	Error       string // the converter's or the sidecar's error, if there is no XML
}

// Launcher makes the definitions that virt-launcher would, with KubeVirt's own code: virt-api's
// defaults, the converter, and the client of hook sidecars. It is not safe for concurrent use.
type Launcher struct {
	programs *cache.Entry
	in       io.WriteCloser
	out      *json.Decoder
	exited   <-chan error
}

// StartLauncher builds the program if the cache lacks it, and reports the build to log. hooks is a
// directory. The socket of a hook sidecar must appear in a subdirectory of it within a minute. An
// empty hooks means no sidecar. KubeVirt logs to standard error.
func StartLauncher(ctx context.Context, hooks string, log *slog.Logger) (_ *Launcher, err error) {
	l := &Launcher{}
	if l.programs, err = Build(ctx, log); err != nil {
		return nil, err
	}
	var args []string
	if hooks != "" {
		args = []string{hooks}
	}
	cmd := child.Command(ctx, filepath.Join(l.programs.Dir, launcherProgram), args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		l.out = json.NewDecoder(out)
		l.in, err = cmd.StdinPipe()
	}
	if err == nil {
		l.exited, err = child.Start(cmd, syscall.SIGKILL)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", launcherProgram, err),
			l.programs.Close())
	}
	return l, nil
}

// Define returns the definition of a VM. An error means that the program failed. If KubeVirt cannot
// define the VM, Definition.Error has the reason.
func (l *Launcher) Define(r Request) (d Definition, err error) {
	if err = json.NewEncoder(l.in).Encode(r); err == nil {
		err = l.out.Decode(&d)
	}
	if err != nil {
		return d, fmt.Errorf("calling %s: %w", launcherProgram, err)
	}
	return d, nil
}

// Close ends the program.
func (l *Launcher) Close() error {
	err := l.in.Close()
	return errors.Join(err, <-l.exited, l.programs.Close())
}
