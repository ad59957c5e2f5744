package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
)

// vmPeriod is the time between two reads of a VM.
const vmPeriod = time.Second

// vmWaiter follows the status annotation of a VirtualMachine. It accepts only the status that names
// its own request: an older one may be about the same size.
type vmWaiter struct {
	*Program
	cluster *cluster
	name    string
	asked   map[string]string // the annotations of the request, with its name
	started time.Time
	shown   string // last status
}

// wait shows each status of the request until the VM has the size, or cannot have it.
func (w *vmWaiter) wait(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	end := w.progress(func() string { return "waiting for the end of the resize" })
	defer end()
	err := wait.PollUntilContextCancel(ctx, vmPeriod, true, w.poll)
	if err == nil || ctx.Err() == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	if w.shown == "" {
		return fmt.Errorf("waited for %s without an answer of mooring-controller about "+
			"VirtualMachine %s: check that it runs in mode enforce with --resize-vms", timeout,
			printable(w.name))
	}
	return fmt.Errorf("waited for %s: %s. mooring-controller continues", timeout,
		printable(w.shown))
}

func (w *vmWaiter) poll(ctx context.Context) (over bool, err error) {
	vm, err := w.cluster.getVM(ctx, w.name)
	if err != nil {
		return false, err
	}
	if err := w.checkAsked(vm); err != nil {
		return false, err
	}
	var s api.ResizeStatus
	err = json.Unmarshal([]byte(vm.Annotations[api.ResizeStatusKey]), &s)
	if err != nil || s.Request != w.asked[api.ResizeRequestKey] {
		return false, nil //nolint:nilerr // no status yet
	}
	w.show(s)
	switch s.Reason {
	case api.ResizeDone:
		return true, nil
	case api.ResizeInvalid, api.ResizeRefused, api.ResizeFailed:
		return true, fmt.Errorf("the VM could not be resized: %s", printable(w.shown))
	}
	return false, nil
}

// checkAsked returns an error if another client has changed an annotation of the request.
func (w *vmWaiter) checkAsked(vm *kubevirtv1.VirtualMachine) error {
	for _, key := range []string{api.VCPUsKey, api.ResizeMemoryKey, api.ResizeRequestKey} {
		want, asked := w.asked[key]
		if is := vm.Annotations[key]; asked && is != want {
			return fmt.Errorf("another request replaced this one: annotation %s of VirtualMachine "+
				"%s is %q", key, printable(w.name), is)
		}
	}
	return nil
}

// show writes a new status with the time since the request.
func (w *vmWaiter) show(s api.ResizeStatus) {
	line := fmt.Sprintf("%s: %s", s.Reason, s.Message)
	if s.Actual != nil && s.Reason != api.ResizeDone {
		line += fmt.Sprintf(" (now %s)", s.Actual)
	}
	if line != w.shown {
		w.shown = line
		fmt.Fprintf(w.Out, "%8.2fs  %s\n", time.Since(w.started).Seconds(), printable(line))
	}
}
