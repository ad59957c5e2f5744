// Command matrix runs the core of the node suite on several runtimes and kernels
// and writes docs/reference/compatibility.md from what came out.
//
//	go run ./integration/matrix                      every cell, about two hours when emulated
//	go run ./integration/matrix trixie/distribution  this cell; what is known of the others stays
//	go run ./integration/matrix -render              the page anew, from docs/reference/compatibility.json
//
// It is to be run in the root of a checkout.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

//go:generate go run . -render -docs=../../docs

func main() {
	docs := flag.String("docs", "docs/reference", "folder of compatibility.json and compatibility.md")
	tests := flag.String("run", "", "run only the tests of the core that match, and keep what is known of the others")
	handler := flag.String("handler", "", "run with this runtime handler alone, not with all of each cell")
	only := flag.Bool("render", false, "run nothing, and write compatibility.md from compatibility.json")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *docs, *only, selection{names: flag.Args(), handler: *handler, tests: *tests})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, docs string, renderOnly bool, s selection) error {
	r := results{file: filepath.Join(docs, "compatibility.json")}
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
	return errors.Join(failed, writePage(filepath.Join(docs, "compatibility.md"), r))
}

// runCells goes on after a cell that failed, and saves what is known after each.
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
