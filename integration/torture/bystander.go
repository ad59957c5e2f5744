package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/mooring-vm/mooring/integration/cri"
)

// bystanders is the maximum number of bystanders.
const maxBystanders = 24

// startBystander starts a process that resembles a VM but belongs to no launcher.
func startBystander(ctx context.Context, w *world) (string, error) {
	if w.forgetEndedBystanders(); len(w.bystanders) >= maxBystanders {
		return "", errSkip
	}
	var s *subject
	var err error
	emulatorPath := filepath.Join(workDir, emulator)
	switch w.rand.IntN(4) {
	case 0:
		s, err = startImitation("called QEMU", "/usr/bin/sleep", emulator)
	case 1:
		s, err = startImitation("an emulator of the node", emulatorPath, "sleep")
	case 2:
		s, err = startImitation("an emulator in a VM's cgroup", emulatorPath, "sleep")
		if err == nil {
			err = s.moveTo(fmt.Sprintf("/sys/fs/cgroup/machine.slice/bystander-%d.scope", s.pid))
		}
	default:
		s, err = w.startInPlainPod(ctx)
	}
	if err != nil {
		return "", err
	}
	w.bystanders = append(w.bystanders, s)
	w.check.watch(s)
	return s.name, nil
}

// forgetEndedBystanders drops the bystanders that this program has ended.
func (w *world) forgetEndedBystanders() {
	kept := w.bystanders[:0]
	for _, s := range w.bystanders {
		if !s.endExpected {
			kept = append(kept, s)
		}
	}
	w.bystanders = kept
}

func endBystander(_ context.Context, w *world) (string, error) {
	if w.forgetEndedBystanders(); len(w.bystanders) == 0 {
		return "", errSkip
	}
	s := w.bystanders[w.rand.IntN(len(w.bystanders))]
	w.check.expectEnd(s)
	return s.name, s.signal(9)
}

// startImitation starts a file on the node with another argv[0].
func startImitation(name, file, called string) (*subject, error) {
	cmd := exec.Command(file)
	cmd.Args = []string{called, "2147483647"}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p, err := openProcess(cmd.Process.Pid)
	go func() { _ = cmd.Wait() }() // avoids a zombie
	return &subject{process: p, name: "bystander: " + name}, err
}

// startInPlainPod starts an emulator in the pod without a launcher.
func (w *world) startInPlainPod(ctx context.Context) (*subject, error) {
	s, err := w.startVM(ctx, w.plainPod, w.plainPod.current, "(vm TAG >/dev/null 2>&1 &)")
	if err != nil {
		return nil, err
	}
	s.launcher, s.name = nil, "bystander: an emulator in a plain pod"
	return s, nil
}

// runPlainPod starts the pod without a launcher.
func (w *world) runPlainPod(ctx context.Context) error {
	k := kind{"plain", cri.NodePIDs, "crun", "exit 0", false}
	l := &launcher{kind: k, number: len(w.launchers)}
	w.plainPod = l
	uid := uuid.NewString()
	var err error
	l.pod, err = w.cri.RunPod(ctx, cri.Pod{
		Namespace: namespace, Name: "plain-" + uid[:8], UID: uid, Handler: l.handler, PIDs: l.pids,
	})
	if err != nil {
		return err
	}
	i, err := l.runContainer(ctx, "the plain pod")
	if err != nil {
		return err
	}
	w.setCurrent(l, i)
	return nil
}
