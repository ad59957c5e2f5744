package agent

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mooring-vm/mooring/internal/logflags"
)

// stuck is a writer that blocks until proceed is closed.
type stuck struct {
	proceed chan struct{}
	got     bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.proceed
	return s.got.Write(p)
}

func TestLogNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{proceed: make(chan struct{})}
		logger, closeLog, err := openLog(out, slog.LevelInfo, logflags.JSON)
		if err != nil {
			t.Fatal(err)
		}
		logger.Info("first")
		synctest.Wait()
		long := strings.Repeat("x", logQueue)
		logger.Info(long)
		logger.Info(long)
		logger.Info("last")
		close(out.proceed)
		closeLog()
		for _, want := range []string{`"msg":"first"`, `"msg":"last"`,
			`"level":"WARN","msg":"log lines were dropped`, `"lines":2}`} {
			if !strings.Contains(out.got.String(), want) {
				t.Errorf("log %s, want %s in it", out.got.String(), want)
			}
		}
	})
}

func TestEndsWithoutAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{proceed: make(chan struct{})}
		_, closeLog, err := openLog(out, slog.LevelInfo, logflags.Text)
		if err != nil {
			t.Fatal(err)
		}
		PrintError(out, errors.New("broken"))
		closeLog()
		close(out.proceed)
		synctest.Wait()
		if got := out.got.String(); got != "error: broken\n" {
			t.Errorf("printed %q", got)
		}
	})
}

func TestOpenLogRefusesFormats(t *testing.T) {
	if _, _, err := openLog(io.Discard, slog.LevelInfo, "xml"); err == nil {
		t.Error("no error for a format that does not exist")
	}
}
