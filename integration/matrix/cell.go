package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mooring-vm/mooring/hack/artefacts"
)

// coreTests matches the core of the node suite. Each test of the core checks one or more claims.
const coreTests = "^TestCore"

//go:embed cells.json
var cellsJSON []byte

// cell is one node of the matrix, given by flags of hack/node, with its runtime handlers.
type cell struct {
	Suite      string   `json:"suite"`
	Containerd string   `json:"containerd"`
	Handlers   []string `json:"handlers"`
	tests      string   // regular expression; empty for the whole core
}

func (c cell) name() string { return c.Suite + "/" + c.Containerd }

func allCells() ([]cell, error) {
	var cells []cell
	if err := json.Unmarshal(cellsJSON, &cells); err != nil {
		return nil, fmt.Errorf("reading cells.json: %w", err)
	}
	return cells, nil
}

// selection is the user's choice of cells, handler and tests. An empty field selects all.
type selection struct {
	names   []string
	handler string
	tests   string
}

func (s selection) cells() ([]cell, error) {
	all, err := allCells()
	if err != nil {
		return nil, err
	}
	names := s.names
	if len(names) == 0 {
		names = cellNames(all)
	}
	var chosen []cell
	for _, name := range names {
		i := slices.IndexFunc(all, func(c cell) bool { return c.name() == name })
		if i < 0 {
			return nil, fmt.Errorf("cell %q: want one of %s", name,
				strings.Join(cellNames(all), ", "))
		}
		c := all[i]
		c.tests = s.tests
		if s.handler != "" {
			if !slices.Contains(c.Handlers, s.handler) {
				return nil, fmt.Errorf("handler %q: cell %s has %s", s.handler, name,
					strings.Join(c.Handlers, ", "))
			}
			c.Handlers = []string{s.handler}
		}
		chosen = append(chosen, c)
	}
	return chosen, nil
}

func cellNames(cells []cell) []string {
	var names []string
	for _, c := range cells {
		names = append(names, c.name())
	}
	return names
}

// script runs the core on the node with one handler after the other.
const script = `code=0
for handler in "${@:2}"; do
	MOORING_SUITE_HANDLER=$handler go test -count=1 -json -timeout=30m -run="$0" \
		./integration/suite >"$1/$handler.json" || code=1
done
exit $code`

func (c cell) pattern() string {
	if c.tests == "" {
		return coreTests
	}
	return "^" + nodeTest + "$|" + c.tests
}

// command boots the node and runs the core on it. It writes each handler's events to a file in dir.
func (c cell) command(ctx context.Context, dir string) *exec.Cmd {
	args := []string{
		"run", "--suite=" + c.Suite, "--containerd=" + c.Containerd, "--",
		"bash", "-c", script, c.pattern(), dir,
	}
	cmd := exec.CommandContext(ctx, "hack/node", append(args, c.Handlers...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // ends the node
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}

// run returns the result of each handler. The error names handlers without a result, and reports
// failed tests. The results contain the details.
func (c cell) run(ctx context.Context) ([]coreRun, error) {
	// Not among the artefacts: a starting node removes old artefacts.
	dir, err := os.MkdirTemp("", "mooring-matrix-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintf(os.Stderr, "matrix: %s with %s\n", c.name(), strings.Join(c.Handlers, ", "))
	failed := c.command(ctx, dir).Run()
	runs, err := c.read(dir)
	return runs, errors.Join(failed, err, c.saveEvents(dir))
}

func (c cell) read(dir string) ([]coreRun, error) {
	var runs []coreRun
	var errs []error
	for _, h := range c.Handlers {
		r, err := readRun(filepath.Join(dir, h+".json"))
		if err != nil {
			errs = append(errs, fmt.Errorf("with %s: %w", h, err))
			continue
		}
		r.Cell, r.Handler, r.partial = c.name(), h, c.tests != ""
		r.Date = time.Now().UTC().Format(time.DateOnly)
		runs = append(runs, r)
	}
	return runs, errors.Join(errs...)
}

// saveEvents copies the events of the tests to the artefacts.
func (c cell) saveEvents(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		return err
	}
	to, err := artefacts.New("matrix/" + c.name())
	if err != nil {
		return fmt.Errorf("saving the events of the tests: %w", err)
	}
	fmt.Fprintln(os.Stderr, "matrix: the events of the tests are in", to)
	var errs []error
	for _, f := range files {
		errs = append(errs, artefacts.Copy(f, to))
	}
	return errors.Join(errs...)
}
