package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api/vmfile"
	"github.com/mooring-vm/mooring/internal/buildinfo"
	"github.com/mooring-vm/mooring/plugin"
	"github.com/mooring-vm/mooring/shim/heartbeat"
	"github.com/mooring-vm/mooring/shim/prestop"
)

func TestDefaultsFitTheMounts(t *testing.T) {
	if prestop.DefaultFile != plugin.MountPoint+"/pod/stop" ||
		heartbeat.DefaultFile != plugin.MountPoint+"/pod/heartbeat" ||
		vmfile.Path != plugin.MountPoint+"/"+vmfile.Name {
		t.Errorf("the files are %s, %s and %s, want them below %s", prestop.DefaultFile,
			heartbeat.DefaultFile, vmfile.Path, plugin.MountPoint)
	}
}

// podFile makes a file as the agent does in a pod directory.
func podFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	epoch := time.Unix(0, 0)
	if err := errors.Join(unix.Mkfifo(path, 0o666), os.Chtimes(path, epoch, epoch)); err != nil {
		t.Fatal(err)
	}
	return path
}

func touched(t *testing.T, path string) bool {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Error(err)
		return false
	}
	return !info.ModTime().Equal(time.Unix(0, 0))
}

// confirm stands for the agent: it confirms the first request.
func confirm(t *testing.T, path string) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !touched(t, path) {
		select {
		case <-ticker.C:
		case <-t.Context().Done():
			return
		}
	}
	if err := os.Chtimes(path, time.Unix(0, 0), time.Unix(0, 0)); err != nil {
		t.Error(err)
	}
}

// execute runs the program and returns exit code and output.
func execute(ctx context.Context, args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	p := program{out: &o, errOut: &e, build: buildinfo.Info{Version: "v1"}}
	code = p.run(ctx, args)
	return code, o.String(), e.String()
}

func TestExitCodes(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for name, test := range map[string]struct {
		args   string
		code   int
		errOut string // a part of it
	}{
		"nothing":                    {"", 2, "Usage:"},
		"unknown command":            {"stop", 2, `unknown command "stop"`},
		"unknown flag":               {"prestop --wait", 2, "-wait"},
		"flag without value":         {"prestop --timeout", 2, "-timeout"},
		"no duration":                {"prestop --timeout=90", 2, `"90"`},
		"negative duration":          {"prestop --timeout=-1s", 2, "--timeout -1s"},
		"no time for command":        {"prestop --command-timeout=0s", 2, "--command-timeout 0s"},
		"negative pause":             {"prestop --repeat=-1s", 2, "--repeat -1s"},
		"command without dashes":     {"prestop virsh shutdown", 2, "put -- before COMMAND"},
		"heartbeat with an argument": {"heartbeat now", 2, `"now"`},
		"heartbeat without end":      {"heartbeat --interval=0s", 2, "--interval 0s"},
		"run with an argument":       {"run vm-3", 2, `"vm-3"`},
		"run without time to start":  {"run --start-timeout=0s", 2, "--start-timeout 0s"},
		"run with negative timeout":  {"run --timeout=-1s", 2, "--timeout -1s"},
		"run without directory":      {"run --stop-file=" + none, 4, "no pod directory"},
		"run without a VM": {"run --start-timeout=1ms --file=" + none + " --stop-file=" +
			podFile(t), 5, "reported no VM"},
		"run after a power-off": {"run --file=" + vmFile(t, vmfile.Shutdown) + " --stop-file=" +
			podFile(t), 0, ""},
		"run after a crash": {"run --file=" + vmFile(t, vmfile.Crashed) + " --stop-file=" +
			podFile(t), 6, "domain vm-3 has ended: crashed"},
		"install without a file": {"install", 2, "one FILE"},
		"install into nowhere":   {"install " + none + "/x/hook", 1, "install: "},
		"no confirmation": {"prestop --timeout=1ms --file=" + podFile(t), 3,
			"did not confirm"},
		"prestop without directory":   {"prestop --file=" + none, 4, "no pod directory"},
		"heartbeat without directory": {"heartbeat --file=" + none, 4, "no pod directory"},
		"prestop's loop of links": {"prestop --file=" + loop(t) + "/stop", 1,
			"too many levels"},
	} {
		code, out, errOut := execute(t.Context(), strings.Fields(test.args)...)
		if code != test.code || out != "" || !strings.Contains(errOut, test.errOut) ||
			strings.Count(errOut, "mooring-hook: ") > 1 {
			t.Errorf("%s: exit code %d, want %d; out %q, err %q", name, code, test.code,
				out, errOut)
		}
	}
}

// vmFile makes the file of an ended VM as the agent does.
func vmFile(t *testing.T, reason vmfile.Reason) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), vmfile.Name)
	text := `{"state":"ended","domain":"vm-3","pid":7,"reason":"` + string(reason) + `"}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func loop(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "loop")
	if err := os.Symlink(path, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestHelp(t *testing.T) {
	for args, want := range map[string]string{
		"--help": "Exit codes:", "help": "Usage:", "prestop --help": "--for lifecycle",
		"prestop -h":       "-command-timeout",
		"heartbeat --help": "-interval", "install --help": "FILE", "version": "mooring-hook v1",
	} {
		code, out, errOut := execute(t.Context(), strings.Fields(args)...)
		if code != 0 || errOut != "" || !strings.Contains(out, strings.TrimPrefix(want, "--for ")) {
			t.Errorf("%s: exit code %d, out %q, err %q", args, code, out, errOut)
		}
	}
}

func TestPrestop(t *testing.T) {
	file := podFile(t)
	go confirm(t, file)
	if code, _, errOut := execute(t.Context(), "prestop", "--file", file); code != 0 ||
		errOut != "" {
		t.Errorf("exit code %d, err %q", code, errOut)
	}
}

// A booting guest loses the first requests. COMMAND repeats them until the VM has ended.
func TestPrestopRepeatsCommand(t *testing.T) {
	file, runs := podFile(t), filepath.Join(t.TempDir(), "runs")
	go func() {
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for t.Context().Err() == nil {
			if text, err := os.ReadFile(runs); err == nil && len(text) >= 3 {
				confirm(t, file)
				return
			}
			<-ticker.C
		}
	}()
	code, out, errOut := execute(t.Context(), "prestop", "--file", file, "--repeat", "1ms", "--",
		"sh", "-c", `echo told; printf x >>"$0"; test "$(wc -c <"$0")" = 1`, runs)
	if code != 0 || out != "told\n" || errOut != "" {
		t.Errorf("exit code %d, out %q, err %q", code, out, errOut)
	}
}

// SIGTERM ends the wait. The request stays for the agent.
func TestPrestopEndsWithThePod(t *testing.T) {
	file := podFile(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, _, errOut := execute(ctx, "prestop", "--file", file); code != 1 ||
		!strings.Contains(errOut, "canceled") || !touched(t, file) {
		t.Errorf("exit code %d, err %q, requested %t", code, errOut, touched(t, file))
	}
}

func TestCommand(t *testing.T) {
	for name, test := range map[string]struct {
		argv    []string
		out, in string // output of the command; a part of the error output
	}{
		"works": {[]string{"/bin/sh", "-c", "echo asked the guest"}, "asked the guest\n",
			""},
		"fails":        {[]string{"/bin/sh", "-c", "exit 7"}, "", "exit status 7; continuing"},
		"is not there": {[]string{"/nonexistent/virsh", "shutdown"}, "", "/nonexistent/virsh"},
		"hangs": {[]string{"/bin/sh", "-c", "exec sleep 1000"}, "",
			"longer than --command-timeout"},
		"has flags": {[]string{"/bin/echo", "--timeout=0", "--", "x"}, "--timeout=0 -- x\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := podFile(t)
			go confirm(t, file)
			args := append([]string{"prestop", "--command-timeout=1s", "--file=" + file, "--"},
				test.argv...)
			code, out, errOut := execute(t.Context(), args...)
			if code != 0 || out != test.out || !strings.Contains(errOut, test.in) ||
				(test.in == "") != (errOut == "") {
				t.Errorf("exit code %d, out %q, err %q", code, out, errOut)
			}
		})
	}
}

// The command runs before the request: after the request, the grace period runs.
func TestCommandComesFirst(t *testing.T) {
	file := podFile(t)
	go confirm(t, file)
	code, out, _ := execute(t.Context(), "prestop", "--file", file, "--", "/usr/bin/stat", "-c",
		"%Y",
		file)
	if code != 0 || out != "0\n" {
		t.Errorf("exit code %d; the command sees the time %q", code, out)
	}
}

func TestHeartbeat(t *testing.T) {
	file := podFile(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for range 3 { // so at least two heartbeats came
			confirm(t, file)
		}
		cancel()
	}()
	if code, out, errOut := execute(ctx, "heartbeat", "--interval=1ms", "--file",
		file); code != 0 ||
		out+errOut != "" {
		t.Errorf("exit code %d, out %q, err %q", code, out, errOut)
	}
}
