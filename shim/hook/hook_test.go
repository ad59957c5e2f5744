package hook_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/hook"
)

const vm = `<domain type="kvm" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">` +
	`<name>vms_db</name><memory unit="b">1073741824</memory>` +
	`<vcpu placement="static">2</vcpu><os><type arch="x86_64" machine="q35">hvm</type></os>` +
	`<features><acpi></acpi></features>` +
	`<devices></devices><qemu:commandline><qemu:arg value="-S"></qemu:arg></qemu:commandline>` +
	`</domain>`

var (
	versions = []string{"v1alpha1", "v1alpha2", "v1alpha3"}
	sev      = strings.Replace(vm, "<devices>", `<launchSecurity type="sev"/><devices>`, 1)
)

// The sidecar calls Host for each domain. If Host fails the VM does not start. With best effort it
// starts unchanged.
func TestHostCallback(t *testing.T) {
	var host atomic.Pointer[headroom.Host]
	away := errors.New("the agent is away")
	askHost := func(context.Context) (headroom.Host, error) {
		if h := host.Load(); h != nil {
			return *h, nil
		}
		return headroom.Host{}, away
	}
	s := start(
		t,
		hook.Config{
			Host:    askHost,
			Options: headroom.Options{CPUs: 8, Host: headroom.Host{Memory: 1, CPUs: 1}},
		},
	)
	best := start(
		t,
		hook.Config{
			Host:       askHost,
			BestEffort: true,
			Options:    headroom.Options{Host: headroom.Host{Memory: 1, CPUs: 1}},
		},
	)
	_, err := s.define(t.Context(), "v1alpha3", vm)
	if status.Code(err) != codes.Unavailable ||
		!strings.Contains(err.Error(), "mooring: the agent is away") {
		t.Errorf("got %v", err)
	}
	if got, err := best.define(t.Context(), "v1alpha3", vm); got != vm || err != nil {
		t.Errorf("with best effort: %v\n%s", err, got)
	}
	for _, memory := range []int64{2048, 4096} {
		host.Store(&headroom.Host{Memory: memory, CPUs: 4})
		want, err := headroom.Prepare([]byte(vm), headroom.Options{Memory: memory, CPUs: 8})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.define(t.Context(), "v1alpha3", vm)
		if got != string(want.XML) || err != nil {
			t.Errorf("%d MiB: %v\n%s", memory, err, got)
		}
	}
}

// Each version prepares domains as headroom.Prepare does, and has its published methods.
func TestEveryVersion(t *testing.T) {
	s := start(t, hook.Config{})
	want, err := headroom.Prepare([]byte(vm), headroom.Options{Memory: 4096, CPUs: 8})
	if err != nil || !want.Changed {
		t.Fatalf("%+v, %v", want, err)
	}
	for i, version := range versions {
		got, err := s.define(t.Context(), version, vm)
		if err != nil || got != string(want.XML) {
			t.Errorf("%s: %v\n%s", version, err, got)
		}
		in := message{1: {"old"}, 2: {"{}"}, 3: {"new"}}
		out, err := s.call(t.Context(), version+".Callbacks/PreCloudInitIso", in)
		if i == 0 && status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: PreCloudInitIso: %v, %v", version, out, err)
		}
		diff := cmp.Diff(message{1: {"old"}, 3: {"new"}}, out)
		if i > 0 && (err != nil || diff != "") {
			t.Errorf("%s: PreCloudInitIso: %v %s", version, err, diff)
		}
	}
	for _, version := range versions[:2] {
		if _, err := s.call(
			t.Context(), version+".Callbacks/Shutdown", nil,
		); status.Code(
			err,
		) != codes.Unimplemented {
			t.Errorf("%s: Shutdown: %v", version, err)
		}
	}
	if _, err := s.define(t.Context(), "v1alpha4", vm); status.Code(err) != codes.Unimplemented {
		t.Errorf("v1alpha4: %v", err)
	}
}

func TestInfo(t *testing.T) {
	// The priority of a hook point is 0, which protobuf leaves out.
	define, shutdown := "\x0a\x0eOnDefineDomain", "\x0a\x08Shutdown"
	for version, want := range map[string]message{
		"":         {1: {"mooring-headroom"}, 3: {define, shutdown}, 4: versions},
		"v1alpha1": {1: {"mooring-headroom"}, 3: {define}, 4: {"v1alpha1"}},
		"v1alpha2": {1: {"mooring-headroom"}, 3: {define}, 4: {"v1alpha2"}},
		"v1alpha3": {1: {"mooring-headroom"}, 3: {define, shutdown}, 4: {"v1alpha3"}},
	} {
		got, err := start(t, hook.Config{Version: version}).call(t.Context(), "info.Info/Info", nil)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", version, err, diff)
		}
	}
}

// The sidecar answers Shutdown, then ends and removes its socket.
func TestShutdown(t *testing.T) {
	s := start(t, hook.Config{})
	if _, err := s.call(t.Context(), "v1alpha3.Callbacks/Shutdown", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.wait(t); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(s.socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket: %v", err)
	}
}

func TestCancel(t *testing.T) {
	s := start(t, hook.Config{})
	if _, err := s.define(t.Context(), "v1alpha3", vm); err != nil {
		t.Fatal(err)
	}
	s.cancel()
	if err := s.wait(t); err != nil {
		t.Error(err)
	}
}

func TestErrorCodes(t *testing.T) {
	s := start(t, hook.Config{})
	for _, c := range []struct {
		xml  string
		code codes.Code
		want string
	}{
		{
			sev,
			codes.FailedPrecondition,
			"mooring: the domain can get no headroom: launchSecurity: ",
		},
		{"", codes.InvalidArgument, "mooring: domain XML: there is none"},
		{"<domain>", codes.InvalidArgument, "mooring: domain XML: XML syntax error"},
		{"\x00\xff", codes.InvalidArgument, "mooring: domain XML: "},
	} {
		for _, version := range versions {
			got, err := s.define(t.Context(), version, c.xml)
			if status.Code(err) != c.code || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %q: %q, %v", version, c.xml, got, err)
			}
		}
	}
	if _, err := s.define(t.Context(), "v1alpha3", vm); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestBestEffort(t *testing.T) {
	var log bytes.Buffer
	s := start(t, hook.Config{BestEffort: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for _, xml := range []string{sev, "<domain>", "\xff"} {
		if got, err := s.define(t.Context(), "v1alpha2", xml); err != nil || got != xml {
			t.Errorf("%q, %v", got, err)
		}
	}
	if got, err := s.define(t.Context(), "v1alpha2", vm); err != nil || got == vm {
		t.Errorf("one that can: %q, %v", got, err)
	}
	s.cancel()
	if err := s.wait(t); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"level=WARN", "vmi=vms/db", "launchSecurity: "} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in\n%s", want, log.String())
		}
	}
}

func TestMalformedCalls(t *testing.T) {
	s := start(t, hook.Config{})
	// The VMI is optional.
	if _, err := s.call(
		t.Context(), "v1alpha3.Callbacks/OnDefineDomain",
		message{1: {vm}, 2: {"no JSON"}, 9: {"of the future"}},
	); err != nil {
		t.Error(err)
	}
	raw, err := net.Dial("unix", s.socket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Error(err)
	}
	_ = raw.Close()
	if _, err := s.define(t.Context(), "v1alpha1", vm); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestLargeDomains(t *testing.T) {
	s := start(t, hook.Config{})
	grown := func(mib int) string {
		return strings.Replace(
			vm, "<devices>", "<metadata>"+strings.Repeat("<a/>", mib<<18)+"</metadata><devices>", 1,
		)
	}
	if got, err := s.define(t.Context(), "v1alpha3", grown(1)); err != nil || len(got) < 1<<20 {
		t.Errorf("1 MiB: %d bytes, %v", len(got), err)
	}
	_, err := s.define(t.Context(), "v1alpha3", grown(5))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("5 MiB: %v", err)
	}
	if _, err := s.define(t.Context(), "v1alpha3", vm); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestConcurrentCalls(t *testing.T) {
	s := start(t, hook.Config{})
	want, err := s.define(t.Context(), "v1alpha3", vm)
	if err != nil {
		t.Fatal(err)
	}
	var calls errgroup.Group
	for i := range 64 {
		calls.Go(func() error {
			got, err := s.define(t.Context(), versions[i%3], vm)
			if err == nil && got != want {
				t.Errorf("got %s", got)
			}
			return err
		})
	}
	if err := calls.Wait(); err != nil {
		t.Error(err)
	}
}

// A restarted container finds the socket of its first run.
func TestReplacesOldSocket(t *testing.T) {
	socket := socketPath(t)
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := start(
		t, hook.Config{Socket: socket},
	).define(t.Context(), "v1alpha3", vm); err != nil {
		t.Error(err)
	}
}

func TestServeErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	fine := headroom.Options{Memory: 1, CPUs: 1}
	for _, c := range []struct {
		config hook.Config
		want   string
	}{
		{hook.Config{Socket: file, Options: fine}, "want a socket or no file"},
		{
			hook.Config{Socket: filepath.Join(t.TempDir(), "none", "a.sock"), Options: fine},
			"no such file or directory",
		},
		{
			hook.Config{Version: "v2", Options: fine},
			`hook: version "v2": want one of v1alpha1, v1alpha2, v1alpha3`,
		},
		{hook.Config{}, "hook: memory capacity: missing"},
	} {
		err := hook.Serve(t.Context(), c.config)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.config, err)
		}
	}
	if text, err := os.ReadFile(file); string(text) != "mine" {
		t.Errorf("the file: %q, %v", text, err)
	}
}

func TestFlags(t *testing.T) {
	var c hook.Config
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.AddFlags(flags)
	args := []string{
		"--version",
		"v1alpha2",
		"--memory-capacity",
		"8192",
		"--cpu-capacity",
		"16",
		"--memory-device",
		"dimm",
		"--memory-slots",
		"4",
		"--best-effort",
		"--socket",
		"/a",
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	want := hook.Config{
		Socket:     "/a",
		Version:    "v1alpha2",
		BestEffort: true,
		Options:    headroom.Options{Memory: 8192, CPUs: 16, Device: headroom.DIMM, Slots: 4},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}
