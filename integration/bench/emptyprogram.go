package main

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/mooring-vm/mooring/bpf"
)

// emptyProgram is an eBPF program without work at the tracker's tracepoints. It measures the
// kernel's cost to call and count a program.
type emptyProgram struct {
	program *ebpf.Program
	links   []link.Link
}

func (e *emptyProgram) start(*forker) (err error) {
	e.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.RawTracepoint, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return fmt.Errorf("loading an empty program: %w", err)
	}
	for _, at := range tracepoints() {
		l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: at.tracepoint,
			Program: e.program})
		if err != nil {
			return errors.Join(fmt.Errorf("attaching an empty program to %s: %w", at.tracepoint,
				err), e.stop())
		}
		e.links = append(e.links, l)
	}
	return nil
}

func (*emptyProgram) observed() int { return 0 }

// figures returns the same numbers for each tracepoint, because all share one program.
func (e *emptyProgram) figures() ([]bpf.ProgramStats, error) {
	s, err := e.program.Stats()
	if err != nil {
		return nil, err
	}
	var all []bpf.ProgramStats
	for _, at := range tracepoints() {
		all = append(all, bpf.ProgramStats{Name: at.tracepoint, Runs: s.RunCount,
			Runtime: s.Runtime})
	}
	return all, nil
}

func (e *emptyProgram) stop() error {
	var errs []error
	for _, l := range e.links {
		errs = append(errs, l.Close())
	}
	return errors.Join(append(errs, e.program.Close())...)
}
