package module

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/mooring-vm/mooring/hack/plainlog"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

// Main is the main function of a command that builds before the tests. It prints the directory of
// the programs and returns the exit code.
func Main(name string, build func(context.Context, *slog.Logger) (*cache.Entry, error)) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	entry, err := build(ctx, plainlog.New(os.Stderr, name))
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	fmt.Println(entry.Dir)
	return 0
}
