// Command matrix runs the core of the node suite on several runtimes and kernels. It keeps the
// results in integration/matrix/compatibility.json and renders docs/reference/compatibility.md.
//
//	go run ./integration/matrix                      every cell, about two hours when emulated
//	go run ./integration/matrix trixie/distribution  this cell; results of other cells stay
//	go run ./integration/matrix -render              render the page from the results
//
// Run it in the root of a checkout.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

//go:generate go run . -render -results=compatibility.json -page=../../docs/reference/compatibility.md

func main() {
	results := flag.String("results", "integration/matrix/compatibility.json",
		"file with the results")
	page := flag.String("page", "docs/reference/compatibility.md", "page to render")
	tests := flag.String("run", "", "run only matching tests of the core; results of other "+
		"tests stay")
	handler := flag.String("handler", "", "run with this runtime handler only")
	only := flag.Bool("render", false, "only render the page from the results")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	chosen := selection{names: flag.Args(), handler: *handler, tests: *tests}
	err := run(ctx, files{*results, *page}, *only, chosen)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

// files are the paths of the results and of the rendered page.
type files struct{ results, page string }

func run(ctx context.Context, f files, renderOnly bool, s selection) error {
	r := results{file: f.results}
	if err := r.load(); err != nil {
		return err
	}
	var failed error
	if !renderOnly {
		cells, err := s.cells()
		if err != nil {
			return err
		}
		failed = runCells(ctx, &r, cells)
	}
	return errors.Join(failed, writePage(f.page, r))
}

// runCells runs the cells one after the other, even after a failed one. It saves the results after
// each cell.
func runCells(ctx context.Context, r *results, cells []cell) error {
	var failed []string
	for _, c := range cells {
		runs, err := c.run(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "matrix: cell %s: %v\n", c.name(), err)
			failed = append(failed, c.name())
		}
		r.merge(runs)
		if err := r.save(); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}
