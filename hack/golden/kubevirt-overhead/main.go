// Command kubevirt-overhead computes the memory overhead of launchers and their memory lock with
// KubeVirt's own code, for each release and a list of VMs. The tests of memlock/kubevirt compare
// Mooring's results with them. README.md shows how to run it.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

func main() {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(logger); err != nil {
		logger.Error("cannot make the table", "error", err)
		os.Exit(1)
	}
}

func run(logger *slog.Logger) error {
	clone := flag.String("clone", "", "KubeVirt's git repository, bare or not")
	vmis := flag.String("vmis", "memlock/kubevirt/testdata/vmis.yaml", "VirtualMachineInstances, "+
		"one a YAML document")
	out := flag.String("out", "memlock/kubevirt/testdata", "directory of the tables to write, "+
		"overhead.tsv and lock.tsv")
	modules := flag.String("modules", "", "build with the modules of this tag where a release "+
		"has older ones; faster")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: kubevirt-overhead -clone DIR [-vmis "+
			"FILE] [-out DIR] [-modules TAG] [TAG...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *clone == "" {
		flag.Usage()
		return errors.New("-clone is missing")
	}
	rows, err := readRows(*vmis)
	if err != nil {
		return err
	}
	repository := repository(*clone)
	tags := flag.Args()
	if len(tags) == 0 {
		if tags, err = repository.releases(); err != nil {
			return err
		}
	}
	overheads, locks := table{rows: rows}, table{rows: rows}
	required, err := repository.modules(*modules)
	if err != nil {
		return err
	}
	a := evaluator{repository: repository, required: required, rows: rows,
		results: map[[sha256.Size]byte][]*answer{}}
	for _, tag := range tags {
		results, err := a.at(tag)
		if err != nil {
			return fmt.Errorf("%s: %w", tag, err)
		}
		overheads.add(tag, cellsOf(results, overheadCell))
		locks.add(tag, cellsOf(results, lockCell))
		logger.Info("computed", "tag", tag, "columns", len(overheads.columns), "locks",
			len(locks.columns))
		// each, since it takes a while
		err = errors.Join(
			os.WriteFile(filepath.Join(*out, "overhead.tsv"), overheads.text(), 0o644),
			os.WriteFile(filepath.Join(*out, "lock.tsv"), locks.text(), 0o644))
		if err != nil {
			return err
		}
	}
	return nil
}
