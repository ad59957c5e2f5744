package agent

import (
	"fmt"
	"log/slog"
	"os"
)

// usableHook returns the hook program that launchers are to get, or none where it
// could not be run: then containers start without it, and their preStop hook fails,
// instead of all launchers of the node.
func usableHook(path string, logger *slog.Logger) string {
	if path == "" {
		return ""
	}
	if err := checkHook(path); err != nil {
		logger.Warn("launchers get no /run/mooring/hook until the agent is started with a usable --hook", "error", err)
		return ""
	}
	return path
}

// checkHook wants a program that everybody may run: launchers may be any user.
func checkHook(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("--hook: %w", err)
	case path[0] != '/':
		return fmt.Errorf("--hook %s: want an absolute path", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("--hook %s: want a program", path)
	case info.Mode()&0o005 != 0o005:
		return fmt.Errorf("--hook %s: its mode is %s, want one that lets everybody read and execute it", path, info.Mode())
	}
	return nil
}
