package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// unmapAfter is the time from the start until the second scan of the launchers has ended.
const unmapAfter = time.Minute

// unmapStart unmaps the pages of the program once, after the start. The start needs most of the
// program, and an idle agent little of it.
func (a *Agent) unmapStart(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(unmapAfter):
	}
	if err := unmapProgram(); err != nil {
		a.logger.Debug("cannot unmap pages of the program", slog.Any("error", err))
	}
}

// unmapProgram unmaps the unchanged pages of this program's file, which count as resident memory.
// The kernel maps a page again at its next use: from the page cache, or else from the file.
func unmapProgram() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return err
	}
	for _, m := range unchangedMappings(string(smaps), program) {
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
		if errno != 0 {
			return fmt.Errorf("madvise %#x to %#x: %w", m.start, m.end, errno)
		}
	}
	return nil
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// unchangedMappings returns the mappings of a file without write access and without private pages,
// from /proc/PID/smaps. MADV_DONTNEED drops the changes of private pages.
func unchangedMappings(smaps, file string) (all []mapping) {
	var at *mapping
	for line := range strings.Lines(smaps) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch {
		case !strings.HasSuffix(name, ":"):
			at = readOnlyMapping(name, value, file)
		case name == "Anonymous:" && at != nil && strings.TrimSpace(value) == "0 kB":
			all = append(all, *at)
		}
	}
	return all
}

// readOnlyMapping parses the first line of a mapping, such as "400000-500000 r-xp 0 8:1 7 /bin/a".
// It returns nil for another file and for a mapping with write access.
func readOnlyMapping(addresses, rest, file string) *mapping {
	access, _, _ := strings.Cut(rest, " ")
	from, to, ok := strings.Cut(addresses, "-")
	if !ok || strings.Contains(access, "w") || !strings.HasSuffix(rest, " "+file) {
		return nil
	}
	start, err := strconv.ParseUint(from, 16, 64)
	if err != nil {
		return nil
	}
	end, err := strconv.ParseUint(to, 16, 64)
	if err != nil || end <= start {
		return nil
	}
	return &mapping{uintptr(start), uintptr(end)}
}
