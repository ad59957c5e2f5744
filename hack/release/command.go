package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// output runs a program with additional environment variables and returns its output. The error
// has the end of its error output.
func output(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		const end = 2000
		text := bytes.TrimSpace(errOut.Bytes())
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err,
			text[max(0, len(text)-end):])
	}
	return out.String(), nil
}

// tool runs a program of tools/go.mod.
func tool(ctx context.Context, args ...string) error {
	_, err := output(ctx, nil, "go", append([]string{"tool", "-modfile=tools/go.mod"}, args...)...)
	return err
}

// commitTime returns the time of the last commit.
func commitTime(ctx context.Context) (time.Time, error) {
	text, err := output(ctx, nil, "git", "log", "-1", "--format=%cI")
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339, strings.TrimSpace(text))
}
