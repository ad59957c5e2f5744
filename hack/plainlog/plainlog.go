// Package plainlog writes log records as lines for people, without time and level:
//
//	hack/node: booting the node, accelerator=tcg
package plainlog

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// New returns a logger. Its lines begin with the name of the program. It writes records of level
// Info and above. It is safe for concurrent use.
func New(out io.Writer, program string) *slog.Logger {
	return slog.New(&handler{out: out, program: program})
}

type handler struct {
	mu      sync.Mutex
	out     io.Writer
	program string
}

func (*handler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	line.WriteString(h.program + ": " + r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&line, ", %s=%v", a.Key, a.Value)
		return true
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := fmt.Fprintln(h.out, line.String())
	return err
}

// WithAttrs and WithGroup ignore their arguments: the packages below hack use neither.
func (h *handler) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h *handler) WithGroup(string) slog.Handler { return h }
