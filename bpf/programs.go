package bpf

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
)

// rawSuffix ends the names of the programs for kernels without tp_btf.
const rawSuffix = "_raw"

// iterators are the programs that user space runs by reading them.
func iterators() []string {
	return []string{trackerProgList, trackerProgScan, trackerProgMark, trackerProgLocate}
}

// handlers are the programs attached to tracepoints.
func handlers() []string {
	return []string{trackerProgHandleFork, trackerProgHandleExec, trackerProgHandleExit,
		trackerProgHandleMove}
}

// onDemand are the programs that user space runs by BPF_PROG_RUN.
func onDemand() []string {
	return []string{trackerProgEdit}
}

// programs holds loaded programs and their links by name. A raw_tp program has the name of its
// tp_btf variant.
type programs struct {
	programs map[string]*ebpf.Program
	links    map[string]link.Link
}

func (p *programs) close() error {
	var errs []error
	for _, l := range p.links {
		errs = append(errs, l.Close())
	}
	for _, program := range p.programs {
		errs = append(errs, program.Close())
	}
	return errors.Join(errs...)
}

// iterator returns the iterator with this name.
func (p *programs) iterator(name string) *link.Iter {
	return p.links[name].(*link.Iter)
}

// load loads the programs over the maps and links the iterators. [programs.attach] links the
// handlers.
func load(o Options, spec *ebpf.CollectionSpec, m mapSet) (*programs, error) {
	cache := btf.NewCache()
	if !o.raw {
		p, err := loadVariant(spec, m, "", cache)
		if err == nil {
			return p, nil
		}
		o.Logger.Info("typed tracepoints are unavailable, trying raw ones", slog.Any("error", err))
	}
	p, err := loadVariant(spec, m, rawSuffix, cache)
	if err != nil {
		return nil, fmt.Errorf("loading programs: %w", explainLoadError(err))
	}
	return p, nil
}

// loadVariant loads the handlers with names ending in suffix.
func loadVariant(
	spec *ebpf.CollectionSpec, m mapSet, suffix string, cache *btf.Cache,
) (*programs, error) {
	spec = spec.Copy()
	for name := range spec.Programs {
		if strings.HasPrefix(name, "handle_") && strings.HasSuffix(name, rawSuffix) !=
			(suffix != "") {
			delete(spec.Programs, name)
		}
	}
	collection, err := ebpf.NewCollectionWithOptions(spec,
		ebpf.CollectionOptions{MapReplacements: m, Cache: cache})
	if err != nil {
		return nil, err
	}
	defer collection.Close()
	p := &programs{programs: map[string]*ebpf.Program{}, links: map[string]link.Link{}}
	for name := range collection.Programs {
		p.programs[strings.TrimSuffix(name, rawSuffix)] = collection.DetachProgram(name)
	}
	if err := p.linkAll(iterators(), linkIterator); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// attach attaches the handlers to their tracepoints.
func (p *programs) attach() error {
	if err := p.linkAll(handlers(), linkHandler); err != nil {
		return explainLoadError(err)
	}
	return nil
}

func (p *programs) linkAll(
	names []string, linkTo func(string, *ebpf.Program) (link.Link, error),
) error {
	for _, name := range names {
		l, err := linkTo(name, p.programs[name])
		if err != nil {
			return fmt.Errorf("attaching %s: %w", name, err)
		}
		p.links[name] = l
	}
	return nil
}

func linkIterator(_ string, program *ebpf.Program) (link.Link, error) {
	return link.AttachIter(link.IterOptions{Program: program})
}

func linkHandler(name string, program *ebpf.Program) (link.Link, error) {
	if program.Type() == ebpf.Tracing {
		return link.AttachTracing(link.TracingOptions{Program: program})
	}
	return link.AttachRawTracepoint(link.RawTracepointOptions{Program: program,
		Name: tracepoints[name]})
}

var tracepoints = map[string]string{
	trackerProgHandleFork: "sched_process_fork",
	trackerProgHandleExec: "sched_process_exec",
	trackerProgHandleExit: "sched_process_exit",
	trackerProgHandleMove: "cgroup_attach_task",
}
