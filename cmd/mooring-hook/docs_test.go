package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/vmfile"
	"github.com/mooring-vm/mooring/plugin"
	"github.com/mooring-vm/mooring/shim/heartbeat"
	"github.com/mooring-vm/mooring/shim/prestop"
	"github.com/mooring-vm/mooring/shim/vmwait"
)

func documentedPod(t *testing.T) *corev1.Pod {
	t.Helper()
	text, err := os.ReadFile("../../examples/lifecycle.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(text, &pod); err != nil {
		t.Fatal(err)
	}
	return &pod
}

func TestDocumentedPod(t *testing.T) {
	pod := documentedPod(t)
	c := pod.Spec.Containers[0]
	hook := plugin.MountPoint + "/hook"
	command := c.Lifecycle.PreStop.Exec.Command
	if pod.Annotations[api.LauncherKey] != c.Name || command[0] != hook ||
		!strings.Contains(c.Args[0], hook+" heartbeat") {
		t.Errorf("container %q, launcher %q; preStop %q, args %q", c.Name,
			pod.Annotations[api.LauncherKey], command, c.Args)
	}
	none := t.TempDir() + "/none"
	args := append([]string{command[1], "--file", none}, command[2:]...)
	if code, _, errOut := execute(t.Context(), args...); code != exitNoDirectory ||
		strings.Contains(errOut, "usage") {
		t.Errorf("%q: exit code %d, %s", args, code, errOut)
	}
	grace, watchdog := duration(t, pod, api.GracePeriodKey), duration(t, pod, api.WatchdogKey)
	if total := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second; total < grace+
		20*time.Second {
		t.Errorf("the pod's grace period %s is shorter than the VM's %s and the time for SIGTERM",
			total,
			grace)
	}
	if !strings.Contains(c.Args[0], "--interval 10s") || watchdog < 30*time.Second {
		t.Errorf("watchdog %s, heartbeat %q: want a third", watchdog, c.Args[0])
	}
}

func duration(t *testing.T, pod *corev1.Pod, key string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(pod.Annotations[key])
	if err != nil {
		t.Errorf("%s: %v", key, err)
	}
	return d
}

func TestHelpHasExitCodes(t *testing.T) {
	if lines := strings.Split(help, "\n"); !slices.ContainsFunc(lines, func(l string) bool {
		return strings.HasPrefix(l, "Each has --help. Exit codes: 0 done")
	}) {
		t.Error("the help lacks the exit codes")
	}
}

var helpFlag = regexp.MustCompile(`(?m)^  -([a-z-]+)`)

func TestFlagsInReference(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/mooring-hook.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"prestop", "heartbeat", "run"} {
		_, section, ok := strings.Cut(string(text), "\n## mooring-hook "+command+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		_, out, _ := execute(t.Context(), command, "--help")
		flags := helpFlag.FindAllStringSubmatch(out, -1)
		if !ok || len(flags) == 0 {
			t.Fatalf("%s: section %t, flags %q", command, ok, flags)
		}
		for _, flag := range flags {
			if !strings.Contains(section, "\n| `--"+flag[1]+"` | ") {
				t.Errorf("docs/reference/mooring-hook.md lacks --%s of %s", flag[1], command)
			}
		}
	}
	for _, want := range []string{
		"| `--file` | `" + prestop.DefaultFile + "` |",
		"| `--file` | `" + heartbeat.DefaultFile + "` |",
		"| `--command-timeout` | `" + commandTimeout.String() + "` |",
		"| `--repeat` | `" + commandPeriod.String() + "` |",
		"| `--start-timeout` | `" + vmwait.DefaultStartTimeout.String() + "` |",
		"| `--file` | `" + vmfile.Path + "` |",
		"| `--interval` | `" + heartbeat.DefaultInterval.String() + "` |",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/reference/mooring-hook.md lacks %q", want)
		}
	}
	for _, code := range []int{
		exitDone, exitFailed, exitUsage, exitTimeout, exitNoDirectory, exitNoVM, exitVMEnded,
	} {
		if !strings.Contains(string(text), fmt.Sprintf("\n| %d | ", code)) {
			t.Errorf("docs/reference/mooring-hook.md lacks exit code %d", code)
		}
	}
}
