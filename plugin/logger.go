package plugin

import (
	"context"
	"fmt"
	"log/slog"

	nrilog "github.com/containerd/nri/pkg/log"
)

// nriLogger passes the log lines of NRI's stub to slog. The stub logs each attempt at level info.
// Here these lines have level debug, because Connection logs its own state.
type nriLogger struct{ log *slog.Logger }

var _ nrilog.Logger = nriLogger{}

func (l nriLogger) Debugf(ctx context.Context, format string, args ...any) {
	l.printf(ctx, slog.LevelDebug, format, args)
}

func (l nriLogger) Infof(ctx context.Context, format string, args ...any) {
	l.printf(ctx, slog.LevelDebug, format, args)
}

func (l nriLogger) Warnf(ctx context.Context, format string, args ...any) {
	l.printf(ctx, slog.LevelWarn, format, args)
}

func (l nriLogger) Errorf(ctx context.Context, format string, args ...any) {
	l.printf(ctx, slog.LevelError, format, args)
}

func (l nriLogger) printf(ctx context.Context, level slog.Level, format string, args []any) {
	if l.log.Enabled(ctx, level) {
		l.log.Log(ctx, level, "nri: "+fmt.Sprintf(format, args...))
	}
}
