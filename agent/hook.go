package agent

import (
	"fmt"
	"log/slog"
	"os"
)

// usableHook returns path if launchers can run it as their hook, else "". With an unusable hook,
// launchers start without one and only their preStop hook fails. Otherwise no launcher of the node
// could start.
func usableHook(path string, logger *slog.Logger) string {
	if path == "" {
		return ""
	}
	if err := checkHook(path); err != nil {
		logger.Warn("launchers get no /run/mooring/hook until the agent is started with a usable "+
			"--hook",
			"error", err)
		return ""
	}
	return path
}

// checkHook returns an error unless every user may run the program: launchers run as any
// user.
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
		return fmt.Errorf("--hook %s: mode %s, want read and execute permission for all users",
			path, info.Mode())
	}
	return nil
}
