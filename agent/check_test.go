package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	text := "apiVersion: mooring.dev/v1alpha1\nkind: NodePolicy\nmode: enforce\nrules: [{name: " +
		"a, namespaces: [a], cgroupFiles: [cpu.max]}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := execute(t, "check", "--policy", path)
	warning, rest, _ := strings.Cut(out, "\n")
	if want := path + " is a valid node policy: mode enforce, rules: 1\n"; err != nil ||
		rest != want {
		t.Errorf("check printed %q, %v; want %q", out, err, want)
	}
	if want := "warning: rules[0].cgroupFiles: kubelet writes " +
		"cpu.max"; !strings.HasPrefix(warning, want) {
		t.Errorf("check printed %q, want %q", warning, want)
	}
}

func TestCheckReportsErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	text := "apiVersion: mooring.dev/v1alpha1\nkind: NodePolicy\nmode: enfroce\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := execute(t, "check", "--policy", path)
	for _, want := range []string{path, "mode", "enfroce"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := execute(t, "check", path); err == nil {
		t.Error("check accepts an argument")
	}
}
