package policy

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
)

func defaultLifecycle() Lifecycle {
	return Lifecycle{
		Emulators: []string{
			"qemu-kvm", "qemu-system-x86_64", "qemu-system-aarch64", "qemu-system-ppc64",
			"qemu-system-s390x", "qemu-system-riscv64",
		},
		GracePeriod: 30 * time.Second, TermPeriod: 10 * time.Second, MaxGracePeriod: time.Hour,
		Unattended: ReactionReport, Hung: ReactionReport, FenceAfter: time.Minute,
	}
}

func defaultLibvirt() *Libvirt {
	return &Libvirt{Records: "/run/libvirt/qemu", Socket: "/run/libvirt/libvirt-sock"}
}

// Each absent field of lifecycle has its default.
func TestParseLifecycle(t *testing.T) {
	for text, change := range map[string]func(*Lifecycle){
		"{}": func(*Lifecycle) {},
		"{gracePeriod: 168h}": func(l *Lifecycle) {
			l.GracePeriod, l.MaxGracePeriod = api.MaxDuration, api.MaxDuration
		},
		"{gracePeriod: 1.5h}": func(l *Lifecycle) {
			l.GracePeriod, l.MaxGracePeriod = 90*time.Minute, 90*time.Minute
		},
		"{maxGracePeriod: 30s}": func(l *Lifecycle) {
			l.MaxGracePeriod = 30 * time.Second
		},
		"{termPeriod: 1s, hung: stop}": func(l *Lifecycle) {
			l.TermPeriod, l.Hung = time.Second, ReactionStop
		},
		"{unattended: stop}": func(l *Lifecycle) { l.Unattended = ReactionStop },
		"{fenceAfter: 0}":    func(l *Lifecycle) { l.FenceAfter = 0 },
		"{fenceAfter: '0'}":  func(l *Lifecycle) { l.FenceAfter = 0 },
		"{fenceAfter: 0s}":   func(l *Lifecycle) { l.FenceAfter = 0 },
		"{fenceAfter: 5s}":   func(l *Lifecycle) { l.FenceAfter = 5 * time.Second },
		"{emulators: [b, a]}": func(l *Lifecycle) {
			l.Emulators = []string{"b", "a"}
		},
		"{libvirt: {}}": func(l *Lifecycle) {
			l.Libvirt = defaultLibvirt()
		},
		"{libvirt: {records: /r}}": func(l *Lifecycle) {
			l.Libvirt = defaultLibvirt()
			l.Libvirt.Records = "/r"
		},
		"{libvirt: {socket: /s}}": func(l *Lifecycle) {
			l.Libvirt = defaultLibvirt()
			l.Libvirt.Socket = "/s"
		},
		"{libvirt: {socket: " + long + "}}": func(l *Lifecycle) {
			l.Libvirt = defaultLibvirt()
			l.Libvirt.Socket = long
		},
		"{libvirt: {requireOwner: ['vm-*', größe]}}": func(l *Lifecycle) {
			l.Libvirt = defaultLibvirt()
			l.Libvirt.RequireOwner = []string{"vm-*", "größe"}
		},
	} {
		want := defaultLifecycle()
		change(&want)
		got, err := Parse([]byte(head + "lifecycle: " + text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, got.Lifecycle); diff != "" {
			t.Errorf("%s (-want +got)\n%s", text, diff)
		}
	}
}

// long is the longest socket path.
var long = "/" + strings.Repeat("s", maxSocketPath-1)

func refusedInLifecycle() (all []refusal) {
	in := func(fields, want string) {
		all = append(all, refusal{head + "lifecycle: {" + fields + "}", "lifecycle." + want})
	}
	in("grace: 1s", "grace: unknown field")
	for _, wrong := range []string{"30", "''", "0s", "500ms", "1.5s", "-1s", "+1s", "169h", "' 1s'",
		"1d", "", "[1s]"} {
		in("gracePeriod: "+wrong, "gracePeriod: ")
		in("termPeriod: "+wrong, "termPeriod: ")
		in("maxGracePeriod: "+wrong, "maxGracePeriod: ")
		if wrong != "0s" {
			in("fenceAfter: "+wrong, "fenceAfter: ")
		}
	}
	in("gracePeriod: 30", "gracePeriod: 30: want whole seconds as a duration between 1s and "+
		"168h, such as 90s")
	in("maxGracePeriod: 29s",
		`maxGracePeriod: "29s": want at least lifecycle.gracePeriod, which is 30s`)
	in("fenceAfter: 4s",
		`fenceAfter: "4s": want 0 for never, or whole seconds as a duration between 5s and 168h`)
	in("fenceAfter: 60", "fenceAfter: 60: want 0 for never")
	in("unattended: kill", `unattended: "kill": want report or stop`)
	in("hung: true", "hung: true: want report or stop")
	in("emulators: []", "emulators: empty: want at least one")
	in("emulators: qemu", "emulators: string: want a list")
	in("emulators: [a, a]", `emulators[1]: "a": is in the list already`)
	in("emulators: ["+numbered(maxEmulators+1)+"]", "emulators: 33 of them: want at most 32")
	for _, wrong := range []string{"''", "a/b", "/usr/bin/qemu", "'qemu-*'", "'q?'", "'[a]'",
		"'a b'", "größe", ".", "..", "1", strings.Repeat("a", 32)} {
		in("emulators: [q, "+wrong+"]", "emulators[1]: ")
	}
	in("emulators: ['']",
		`emulators[0]: "": want the name of an executed file, such as qemu-system-x86_64: 1 `+
			`to 31 of`)
	in("libvirt: []", "libvirt: array: want a mapping")
	in("libvirt: {sockets: /s}", "libvirt.sockets: unknown field")
	in("libvirt: {socket: "+long+"s}", "libvirt.socket: ")
	for _, wrong := range []string{"''", "run", "/run/", "/run/../etc", "5", "", `"/a\0b"`} {
		in("libvirt: {records: "+wrong+"}", "libvirt.records: ")
		in("libvirt: {socket: "+wrong+"}", "libvirt.socket: ")
	}
	for _, wrong := range []string{"''", "a/b", `'a\*'`, "'['", `"a\tb"`, "5"} {
		all = append(all, refusal{head + "rules: [{name: b, namespaces: [a], domains: [x, " +
			wrong + "]}]", "rules[0].domains[1]: "})
		in("libvirt: {requireOwner: [x, "+wrong+"]}", "libvirt.requireOwner[1]: ")
	}
	return all
}

func TestRequiresOwner(t *testing.T) {
	for text, want := range map[string]bool{
		"{}": false, "{libvirt: {}}": false, "{libvirt: {requireOwner: [db, 'vm-?']}}": true,
		"{libvirt: {requireOwner: [vm]}}": false,
	} {
		p, err := Parse([]byte(head + "lifecycle: " + text))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Lifecycle.RequiresOwner("vm-1"); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
}

func numbered(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("q%d", i)
	}
	return strings.Join(all, ", ")
}

// checkSoundLifecycle checks the properties that the agent relies on.
func checkSoundLifecycle(t *testing.T, l Lifecycle) {
	t.Helper()
	if len(l.Emulators) == 0 || len(l.Emulators) > maxEmulators || l.GracePeriod < time.Second ||
		l.MaxGracePeriod < l.GracePeriod || l.TermPeriod < time.Second ||
		l.FenceAfter != 0 && l.FenceAfter < minFenceAfter {
		t.Errorf("got %+v", l)
	}
	for _, name := range l.Emulators {
		if filepath.Base(name) != name || len(name) > maxEmulatorName {
			t.Errorf("emulator %q", name)
		}
	}
	for _, reaction := range []Reaction{l.Unattended, l.Hung} {
		if reaction != ReactionReport && reaction != ReactionStop {
			t.Errorf("reaction %q", reaction)
		}
	}
	if v := l.Libvirt; v != nil && (!filepath.IsAbs(v.Records) || !filepath.IsAbs(v.Socket)) {
		t.Errorf("libvirt at %+v", v)
	}
}
