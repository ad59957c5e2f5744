package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mooring-vm/mooring/api"
)

// DefaultMaxGracePeriod is the longest grace period of a pod if the policy has no other.
const DefaultMaxGracePeriod = time.Hour

const (
	maxEmulators    = 32
	maxEmulatorName = 31              // bytes: the tracker compares no more
	maxSocketPath   = 107             // bytes: sun_path of unix(7), without its end
	minFenceAfter   = 5 * time.Second // longer than a restart of the agent
)

type lifecycleFields struct {
	Emulators      []json.RawMessage `json:"emulators"`
	GracePeriod    json.RawMessage   `json:"gracePeriod"`
	TermPeriod     json.RawMessage   `json:"termPeriod"`
	MaxGracePeriod json.RawMessage   `json:"maxGracePeriod"`
	Unattended     json.RawMessage   `json:"unattended"`
	Hung           json.RawMessage   `json:"hung"`
	FenceAfter     json.RawMessage   `json:"fenceAfter"`
	Libvirt        *libvirtFields    `json:"libvirt"`
}

type libvirtFields struct {
	Records      json.RawMessage   `json:"records"`
	Socket       json.RawMessage   `json:"socket"`
	RequireOwner []json.RawMessage `json:"requireOwner"`
}

func (r *reader) lifecycle(f lifecycleFields) Lifecycle {
	reaction := oneOf(ReactionReport, ReactionStop)
	l := Lifecycle{
		Emulators:   r.emulators("lifecycle.emulators", f.Emulators),
		GracePeriod: optional(r, "lifecycle.gracePeriod", f.GracePeriod, 30*time.Second, duration),
		TermPeriod:  optional(r, "lifecycle.termPeriod", f.TermPeriod, 10*time.Second, duration),
		Unattended:  optional(r, "lifecycle.unattended", f.Unattended, ReactionReport, reaction),
		Hung:        optional(r, "lifecycle.hung", f.Hung, ReactionReport, reaction),
		FenceAfter:  optional(r, "lifecycle.fenceAfter", f.FenceAfter, time.Minute, fenceAfter),
		Libvirt:     r.libvirt("lifecycle.libvirt", f.Libvirt),
	}
	l.MaxGracePeriod = r.maxGracePeriod("lifecycle.maxGracePeriod", f.MaxGracePeriod, l.GracePeriod)
	return l
}

// maxGracePeriod reads the ceiling. It must not be below the default grace period.
func (r *reader) maxGracePeriod(at string, raw json.RawMessage, least time.Duration) time.Duration {
	most := optional(r, at, raw, max(DefaultMaxGracePeriod, least), duration)
	if most < least {
		r.fail(at, raw, "want at least lifecycle.gracePeriod, which is %s", least)
	}
	return most
}

// emulators reads the names of emulators. With an empty list the agent would recognise no VM
// process and stop none.
func (r *reader) emulators(at string, raw []json.RawMessage) []string {
	switch {
	case raw == nil:
		return defaultEmulators()
	case len(raw) == 0:
		r.fail(at, nil, "empty: want at least one, or leave it out for the default")
	case len(raw) > maxEmulators:
		r.fail(at, nil, "%d of them: want at most %d", len(raw), maxEmulators)
		return nil
	}
	return list(r, at, raw, emulator)
}

func defaultEmulators() []string {
	return []string{
		"qemu-kvm", "qemu-system-x86_64", "qemu-system-aarch64", "qemu-system-ppc64",
		"qemu-system-s390x", "qemu-system-riscv64",
	}
}

func (r *reader) libvirt(at string, f *libvirtFields) *Libvirt {
	if f == nil {
		return nil
	}
	return &Libvirt{
		Records: optional(r, at+".records", f.Records, "/run/libvirt/qemu", absolutePath),
		Socket:  optional(r, at+".socket", f.Socket, "/run/libvirt/libvirt-sock", socketPath),

		RequireOwner: list(r, at+".requireOwner", f.RequireOwner, domainGlob),
	}
}

func emulator(raw json.RawMessage) (string, error) {
	s, err := text(raw)
	odd := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) &&
			!strings.ContainsRune("._+-", r)
	}
	if err != nil || s == "" || len(s) > maxEmulatorName || strings.ContainsFunc(s, odd) ||
		s == "." || s == ".." {
		return "", fmt.Errorf("want the name of an executed file, such as qemu-system-x86_64: 1 "+
			"to %d of A-Z, a-z, 0-9, "+
			"., _, + and -, without directory and without glob", maxEmulatorName)
	}
	return s, nil
}

// duration reads whole seconds, as in annotations.
func duration(raw json.RawMessage) (time.Duration, error) {
	s, err := text(raw)
	if err != nil || !wholeSeconds(s, time.Second) {
		return 0,
			errors.New("want whole seconds as a duration between 1s and 168h, such as 90s or 1h30m")
	}
	return time.ParseDuration(s)
}

func fenceAfter(raw json.RawMessage) (time.Duration, error) {
	s, err := text(raw)
	if err != nil {
		s = string(raw) // a bare 0
	}
	switch {
	case s == "0" || s == "0s":
		return 0, nil
	case err != nil || !wholeSeconds(s, minFenceAfter):
		return 0, errors.New("want 0 for never, or whole seconds as a duration between 5s and " +
			"168h, such as 60s")
	}
	return time.ParseDuration(s)
}

func wholeSeconds(s string, least time.Duration) bool {
	d, err := time.ParseDuration(s)
	return err == nil && strings.Trim(s, "0123456789.hms") == "" && d >= least &&
		d <= api.MaxDuration && d%time.Second == 0
}

func absolutePath(raw json.RawMessage) (string, error) {
	s, err := text(raw)
	if err != nil || !filepath.IsAbs(s) || filepath.Clean(s) != s || strings.ContainsRune(s, 0) {
		return "",
			errors.New("want an absolute path, without . and .. and without slash at its end")
	}
	return s, nil
}

func socketPath(raw json.RawMessage) (string, error) {
	s, err := absolutePath(raw)
	if err == nil && len(s) > maxSocketPath {
		err = fmt.Errorf("want a path of at most %d bytes, as the kernel takes for a socket",
			maxSocketPath)
	}
	return s, err
}

// domainGlob reads a pattern of path.Match with characters that libvirt accepts in names.
func domainGlob(raw json.RawMessage) (string, error) {
	const want = `want a libvirt domain's name or UUID or a glob of *, ? and [a-z], such as ` +
		`"vm-*": printable, ` +
		"without slash and backslash"
	s, err := text(raw)
	odd := func(r rune) bool {
		return r == '/' || r == '\\' || r == utf8.RuneError || !unicode.IsGraphic(r)
	}
	if err != nil || s == "" || strings.ContainsFunc(s, odd) {
		return "", errors.New(want)
	}
	if _, err := path.Match(s, ""); err != nil {
		return "", errors.New(want)
	}
	return s, nil
}
