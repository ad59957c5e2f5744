// Command kubevirt-launcher renders the pods of a list of VMs with KubeVirt's own template service,
// for several versions of KubeVirt, and reads virt-controller's texts about quotas. The tests of
// quota/estimate and quota/controller compare Mooring with the results. README.md shows how to add
// a version.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/hack/module"
	"github.com/mooring-vm/mooring/hack/plainlog"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

const (
	packagePath = "github.com/mooring-vm/mooring/hack/golden/kubevirt-launcher"
	program     = "render"
)

// versions are the directories of the modules with KubeVirt, oldest first.
var versions = []string{"1.6", "1.7", "1.8", "1.9"}

func main() {
	logger := plainlog.New(os.Stderr, "kubevirt-launcher")
	if err := run(logger); err != nil {
		logger.Error("cannot make the table", "error", err)
		os.Exit(1)
	}
}

func run(log *slog.Logger) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	from := flag.String("cases", "testdata/cases.yaml", "VMs with their settings")
	to := flag.String("out", "testdata/launchers.tsv", "the table to write")
	rejections := flag.String("rejections", "../controller/testdata/rejections.tsv",
		"the table of texts to write")
	flag.Parse()
	cases, err := readCases(*from)
	if err != nil {
		return err
	}
	t := table{cases: cases}
	var texts []rejection
	for _, version := range versions {
		release, answers, err := ask(ctx, log, version, cases)
		if err != nil {
			return fmt.Errorf("KubeVirt %s: %w", version, err)
		}
		t.add(release, answers)
		text, err := readRejection(ctx, version)
		if err != nil {
			return fmt.Errorf("KubeVirt %s: %w", version, err)
		}
		texts = append(texts, text)
	}
	return errors.Join(os.WriteFile(*to, t.text(), 0o644),
		os.WriteFile(*rejections, rejectionTable(texts), 0o644))
}

// answer holds the pods of a VM, or KubeVirt's error. Attachment is nil without hot-plugged
// volumes.
type answer struct {
	Launcher, Attachment *corev1.PodSpec
	Error                string
}

// ask returns the release of KubeVirt in a module and its answers.
func ask(
	ctx context.Context, log *slog.Logger, version string, cases []vm,
) (string, []answer, error) {
	dir := filepath.Join("versions", version)
	source, err := module.Find(ctx, packagePath, dir)
	if err != nil {
		return "", nil, err
	}
	release, err := source.Version(ctx, "kubevirt.io/kubevirt")
	if err != nil {
		return "", nil, err
	}
	programs, err := module.Programs{
		Package: packagePath, Module: dir, Cache: "kubevirt-launcher", Names: []string{program},
		Description: "KubeVirt " + release + " from its module, about two minutes on two cores",
		Make: func(ctx context.Context, source module.Module, dir string) error {
			return source.Build(ctx, filepath.Join(dir, program))
		},
	}.Build(ctx, log)
	if err != nil {
		return "", nil, err
	}
	defer programs.Close()
	answers, err := render(ctx, filepath.Join(programs.Dir, program), cases)
	return release, answers, err
}

// render runs a program, which returns one answer for each case.
func render(ctx context.Context, file string, cases []vm) ([]answer, error) {
	in, err := json.Marshal(cases)
	if err != nil {
		return nil, err
	}
	var out, logged bytes.Buffer
	c := exec.CommandContext(ctx, file)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(in), &out, &logged
	if err := child.Run(c); err != nil {
		return nil, fmt.Errorf("rendering: %w\n%s", err, logged.String())
	}
	var answers []answer
	if err := json.Unmarshal(out.Bytes(), &answers); err != nil {
		return nil, fmt.Errorf("reading the pods: %w", err)
	}
	if len(answers) != len(cases) {
		return nil, fmt.Errorf("%d answers to %d questions", len(answers), len(cases))
	}
	return answers, nil
}
