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
const bystanders = 24

// startsBystander starts a process that resembles a VM and does not belong to the agent.
func startsBystander(ctx context.Context, w *world) (string, error) {
	if w.purge(); len(w.bystanders) >= bystanders {
		return "", errNever
	}
	var s *subject
	var err error
	switch w.rand.IntN(4) {
	case 0:
		s, err = standIn("called QEMU", "/usr/bin/sleep", emulator)
	case 1:
		s, err = standIn("an emulator of the node", filepath.Join(workDir, emulator), "sleep")
	case 2:
		if s, err = standIn("an emulator in a machine's cgroup", filepath.Join(workDir, emulator), "sleep"); err == nil {
			err = s.moveTo(fmt.Sprintf("/sys/fs/cgroup/machine.slice/bystander-%d.scope", s.pid))
		}
	default:
		s, err = w.inPlainPod(ctx)
	}
	if err != nil {
		return "", err
	}
	w.bystanders = append(w.bystanders, s)
	w.check.watch(s)
	return s.name, nil
}

// purge drops ended bystanders.
func (w *world) purge() {
	kept := w.bystanders[:0]
	for _, s := range w.bystanders {
		if !s.asked {
			kept = append(kept, s)
		}
	}
	w.bystanders = kept
}

func endsBystander(_ context.Context, w *world) (string, error) {
	if w.purge(); len(w.bystanders) == 0 {
		return "", errNever
	}
	s := w.bystanders[w.rand.IntN(len(w.bystanders))]
	w.check.ask(s)
	return s.name, s.signal(9)
}

// standIn starts a process on the node under a different name.
func standIn(name, file, called string) (*subject, error) {
	cmd := exec.Command(file)
	cmd.Args = []string{called, "2147483647"}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p, err := hold(cmd.Process.Pid)
	go func() { _ = cmd.Wait() }() // avoids a zombie
	return &subject{process: p, name: "bystander: " + name}, err
}

// inPlainPod starts an emulator in a pod without a launcher.
func (w *world) inPlainPod(ctx context.Context) (*subject, error) {
	s, err := w.startVM(ctx, w.plain, w.plain.current, "(vm TAG >/dev/null 2>&1 &)")
	if err != nil {
		return nil, err
	}
	s.owner, s.name = nil, "bystander: an emulator of a plain pod"
	return s, nil
}

// openPlain runs a pod without a launcher.
func (w *world) openPlain(ctx context.Context) error {
	l := &launcher{kind: kind{"plain", cri.NodePIDs, "crun", "exit 0", false}, number: len(w.launchers)}
	w.plain = l
	uid := uuid.NewString()
	var err error
	l.sandbox, err = w.cri.RunPod(ctx, cri.Pod{Namespace: namespace, Name: "plain-" + uid[:8], UID: uid, Handler: l.handler, PIDs: l.pids})
	if err != nil {
		return err
	}
	i, err := l.run(ctx, "the plain pod")
	if err != nil {
		return err
	}
	w.seat(l, i)
	return nil
}
