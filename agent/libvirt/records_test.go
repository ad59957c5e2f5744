package libvirt

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

var (
	oldDomain = Domain{Name: "old", UUID: "9f1c4be7-7a2b-4d6c-8a70-3d9b8a0f2c11", PID: 3021}
	vm1       = Domain{Name: "vm-1", UUID: "5530f9f3-5627-4dec-933e-74ce04c51e18", PID: 5222}
	sizes     = Domain{Name: "größe & co", UUID: "8c3f9f9e-3f30-4e5a-8d5c-0f8f4f9b7a10",
		PID: 2147483646}
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t testing.TB, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// records returns records of three versions of libvirt, beside other files of the directory.
func records(t testing.TB) Records {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "old.xml", read(t, "libvirt-1.3.xml"))
	write(t, dir, "vm-1.xml", read(t, "libvirt-9.0.xml"))
	write(t, dir, "größe & co.xml", read(t, "libvirt-12.xml"))
	write(t, dir, "vm-1.pid", []byte("5222"))
	write(t, dir, "vm-2.xml.new", read(t, "libvirt-9.0.xml")[:500])
	if err := os.Mkdir(filepath.Join(dir, "dbus"), 0o700); err != nil {
		t.Fatal(err)
	}
	return Records{Dir: dir}
}

func TestList(t *testing.T) {
	got, err := records(t).List()
	if diff := cmp.Diff([]Domain{sizes, oldDomain, vm1}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

// libvirt may record a new domain before the domain has a process.
func TestNoProcessYet(t *testing.T) {
	for _, pid := range []string{"0", "-1"} {
		r := Records{Dir: t.TempDir()}
		write(t, r.Dir, "vm-1.xml", bytes.Replace(read(t, "libvirt-9.0.xml"), []byte("pid='5222'"),
			[]byte("pid='"+pid+"'"), 1))
		if got, err := r.List(); len(got) != 0 || err != nil {
			t.Errorf("pid %s: %+v, %v, want none", pid, got, err)
		}
	}
}

func TestNoDirectory(t *testing.T) {
	r := Records{Dir: filepath.Join(t.TempDir(), "none")}
	if _, err := r.List(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("List: %v", err)
	}
}

// An unreadable record is an error. The other records are listed.
func TestUnreadable(t *testing.T) {
	good := string(read(t, "libvirt-9.0.xml"))
	for name, test := range map[string]struct {
		put  func(path string) error
		want string
	}{
		"empty":  {content(""), "unexpected EOF"},
		"cut":    {content(good[:len(good)-30]), "unexpected EOF"},
		"no XML": {content("<domstatus"), "unexpected EOF"},
		"a domain": {content("<domain id='1'><name>bad</name></domain>"),
			`root element "domain": want domstatus`},
		"no pid": {content("<domstatus state='running'/>"), "no pid"},
		"a pid":  {content("<domstatus pid='x'/>"), `pid "x": want a number`},
		"a large pid": {content("<domstatus pid='4294967297'/>"),
			`pid "4294967297": want a number`},
		"no domain": {content("<domstatus pid='7'/>"),
			`name "", uuid "": want name and UUID of a domain`},
		"another's": {content(strings.Replace(good, "5222", "7", 1)),
			`the record is about domain "vm-1"`},
		"a link": {func(path string) error { return os.Symlink("vm-1.xml", path) },
			"too many levels of symbolic links"},
		"a pipe": {func(path string) error { return unix.Mkfifo(path, 0o600) },
			"want a regular file"},
		"a directory": {func(path string) error { return os.Mkdir(path, 0o700) },
			"want a regular file"},
		"a huge file": {func(path string) error {
			return errors.Join(content("")(path), os.Truncate(path, maxRecord+1))
		}, "want at most 8388608"},
		"an entity": {content("<!DOCTYPE d [<!ENTITY e 'x'>]><domstatus " +
			"pid='7'><domain><name>&e;</name></domain></domstatus>"), "invalid character entity"},
		"not printable": {
			content("<domstatus pid='7'><domain><name>\x01</name></domain></domstatus>"),
			"illegal character"},
	} {
		r := records(t)
		if err := test.put(filepath.Join(r.Dir, "bad.xml")); err != nil {
			t.Fatal(err)
		}
		got, err := r.List()
		if err == nil || !strings.Contains(err.Error(), filepath.Join(r.Dir, "bad.xml")+": ") ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
		if diff := cmp.Diff([]Domain{sizes, oldDomain, vm1}, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		_, unreadable, err := r.Scan()
		if err != nil || len(unreadable) != 1 || unreadable["bad"] == nil {
			t.Errorf("%s: Scan: %v, %v, want only bad unreadable", name, unreadable, err)
		}
	}
}

func content(text string) func(string) error {
	return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
}

func TestCheckRecord(t *testing.T) {
	mine := uint32(os.Geteuid())
	for uid, want := range map[uint32]bool{0: true, mine: true, mine + 1000: false} {
		err := checkRecord(&unix.Stat_t{Mode: unix.S_IFREG | 0o600, Uid: uid})
		if (err == nil) != want {
			t.Errorf("owned by %d: %v", uid, err)
		}
	}
}

func TestRunBy(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bool
	}{
		{nil, false},
		{[]string{"qemu", "-uuid"}, false},
		{[]string{"qemu", "-name", "vm-1", "-uuid", vm1.UUID, "-m", "16"}, true},
		{[]string{"qemu", "-name", vm1.UUID, "-uuid", oldDomain.UUID}, false},
	} {
		if got := vm1.RunBy(c.args); got != c.want {
			t.Errorf("%q: %v, want %v", c.args, got, c.want)
		}
	}
}

func TestIsDaemon(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bool
	}{
		{nil, false},
		{[]string{"/usr/sbin/libvirtd", "--timeout", "120"}, true},
		{[]string{"virtqemud"}, true},
		{[]string{"/lib64/ld-linux-x86-64.so.2", "/usr/sbin/libvirtd.real"}, true},
		{[]string{"qemu", "-name", "vm-1", "-uuid", vm1.UUID}, false},
		{[]string{"rsync", "-a", "/var/lib/libvirt/images", "/backup"}, false},
	} {
		if got := IsDaemon(c.args); got != c.want {
			t.Errorf("%q: %v, want %v", c.args, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"libvirt-1.3.xml", "libvirt-9.0.xml", "libvirt-12.xml"} {
		f.Add(read(f, name))
	}
	f.Add([]byte("<domstatus pid='7'><domain><name>a</name><uuid>x</uuid></domain></domstatus>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, ok, err := parse(bytes.NewReader(data))
		switch {
		case ok && err != nil, !ok && d.Name != "":
			t.Errorf("%+v, %v, %v", d, ok, err)
		case ok && (d.PID <= 0 || d.Name == "" || len(d.UUID) != 36):
			t.Errorf("%+v", d)
		}
	})
}

func BenchmarkRecords(b *testing.B) {
	r := Records{Dir: b.TempDir()}
	good := string(read(b, "libvirt-9.0.xml"))
	good = strings.Replace(good, "<flag name='kvm'/>",
		strings.Repeat("<flag name='vnc-power-control'/>\n", 200), 1)
	for i := range 250 {
		name := fmt.Sprintf("vm-%d", i+1000)
		write(b, r.Dir, name+".xml",
			[]byte(strings.NewReplacer("vm-1", name, "5222", fmt.Sprint(i+1000)).Replace(good)))
	}
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			if all, err := r.List(); len(all) != 250 || err != nil {
				b.Fatal(len(all), err)
			}
		}
	})
}

// A domain's metadata names its owner. A foreign, malformed or ambiguous element names none, and
// the record stays usable.
func TestOwnerInRecord(t *testing.T) {
	want := agentapi.PodRef{Namespace: "vms", Name: "vm-1.a", UID: "3f4c1f0e-8a63"}
	element := func(space, attrs string) string {
		return "<m:owner xmlns:m='" + space + "' " + attrs + "/>"
	}
	const attrs = "namespace='vms' name='vm-1.a' uid='3f4c1f0e-8a63'"
	good := element(api.OwnerNamespace, attrs)
	for name, c := range map[string]struct {
		metadata string
		want     agentapi.PodRef
	}{
		"owner":           {good, want},
		"beside others":   {"<k:x xmlns:k='http://kubevirt.io'/>" + good, want},
		"none":            {"", agentapi.PodRef{}},
		"foreign element": {element("http://example.org", attrs), agentapi.PodRef{}},
		"nested":          {"<x>" + good + "</x>", agentapi.PodRef{}},
		"two":             {good + good, agentapi.PodRef{}},
		"no attributes":   {element(api.OwnerNamespace, ""), agentapi.PodRef{}},
		"UID with a slash": {element(api.OwnerNamespace, attrs[:len(attrs)-1]+"/..'"),
			agentapi.PodRef{}},
		"long UID": {element(api.OwnerNamespace, attrs[:len(attrs)-1]+strings.Repeat("a", 64)+"'"),
			agentapi.PodRef{}},
		"name with a line": {element(api.OwnerNamespace, "namespace='vms' name='a&#10;b' uid='1'"),
			agentapi.PodRef{}},
	} {
		t.Run(name, func(t *testing.T) {
			text := "<domstatus state='running' pid='7'><domain type='kvm'><name>vm-1</name><uuid>" +
				"5530f9f3-5627-4dec-933e-74ce04c51e18</uuid><metadata>" + c.metadata +
				"</metadata></domain></domstatus>"
			d, ok, err := parse(strings.NewReader(text))
			if err != nil || !ok || d.Owner != c.want || d.Name != "vm-1" || d.PID != 7 {
				t.Errorf("%+v, %t, %v, want owner %+v", d, ok, err, c.want)
			}
		})
	}
}
