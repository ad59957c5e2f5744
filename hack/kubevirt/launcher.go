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

// Request asks for the definition of a VM.
type Request struct {
	VMI         *virtv1.VirtualMachineInstance `json:"vmi"`         // as a user writes it
	Emulated    bool                           `json:"emulated"`    // as on a node without KVM
	LiveUpdate  bool                           `json:"liveUpdate"`  // the cluster's rollout strategy; otherwise Stage
	CPUSet      []int                          `json:"cpuSet"`      // of the launcher's container
	HostDevices []string                       `json:"hostDevices"` // PCI addresses that device plugins gave

	// Defined is the inactive XML that libvirt has of the first definition. With it the
	// second is asked for: virt-launcher defines a domain with more interfaces than it is to
	// have, for their ports, and again without them, but with the devices as they were placed.
	Defined string `json:"defined"`
}

// Definition is a domain XML on its way from virt-launcher to libvirt.
type Definition struct {
	Asked    string // what a hook sidecar is given
	Answered string // what libvirt is given
	Kept     string // what virt-launcher itself reads of the latter
	Error    string // why there is none: the converter's reason, or the sidecar's
}

// Launcher makes the definitions that virt-launcher would, with KubeVirt's own code: what
// virt-api adds to a VMI, the converter, and the client of hook sidecars. It is not safe for
// concurrent use.
type Launcher struct {
	programs *cache.Entry
	in       io.WriteCloser
	out      *json.Decoder
	exited   <-chan error
}

// StartLauncher builds what is not cached, of which log hears. hooks is a folder with a
// folder in which the socket of a hook sidecar is, or comes to be within a minute; "": there
// is no sidecar. KubeVirt's own log goes to standard error.
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
		return nil, errors.Join(fmt.Errorf("starting %s: %w", launcherProgram, err), l.programs.Close())
	}
	return l, nil
}

// Define returns the definition of a VM. The error is one of the program; a VM that cannot
// be defined is told by the definition's.
func (l *Launcher) Define(r Request) (d Definition, err error) {
	if err = json.NewEncoder(l.in).Encode(r); err == nil {
		err = l.out.Decode(&d)
	}
	if err != nil {
		return d, fmt.Errorf("asking %s: %w", launcherProgram, err)
	}
	return d, nil
}

// Close ends the program.
func (l *Launcher) Close() error {
	err := l.in.Close()
	return errors.Join(err, <-l.exited, l.programs.Close())
}
