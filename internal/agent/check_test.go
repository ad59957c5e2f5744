package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	text := "apiVersion: mooring.dev/v1alpha1\nkind: NodePolicy\nmode: enforce\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := execute(t, "check", "--policy", path)
	if want := path + " is a valid node policy: mode enforce, rules: 0\n"; err != nil || out != want {
		t.Errorf("check printed %q, %v; want %q", out, err, want)
	}
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
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
		t.Error("an argument is not refused")
	}
}
