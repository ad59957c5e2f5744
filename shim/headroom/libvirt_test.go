package headroom_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/shim/headroom"
)

// expectAccepted makes libvirt check a domain against its schema and define it. libvirt's test
// driver accepts only its own domain type.
func expectAccepted(t *testing.T, name string, text []byte) {
	t.Helper()
	for _, kind := range []string{`type="kvm"`, `type='kvm'`, `type='qemu'`} {
		text = bytes.Replace(text, []byte("<domain "+kind), []byte("<domain type='test'"), 1)
	}
	file := filepath.Join(t.TempDir(), "domain.xml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(
		t.Context(), "virsh", "-c", "test:///default", "define", "--validate", file,
	).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v: %s\n%s", name, err, out, text)
	}
}

func requireVirsh(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("virsh"); err != nil {
		if os.Getenv("MOORING_CI_REQUIRE") != "" {
			t.Fatal("missing: virsh; MOORING_CI_REQUIRE is set")
		}
		t.Skip("missing: virsh")
	}
}

func TestLibvirtAcceptsPrepared(t *testing.T) {
	requireVirsh(t)
	const topology = "<cpu><topology sockets='2' cores='1' threads='1'/>"
	listed := twoVCPUs + "<vcpus><vcpu id='0' enabled='yes' hotpluggable='no'/>" +
		"<vcpu id='1' enabled='yes' hotpluggable='no'/></vcpus>"
	for name, text := range map[string]string{
		"plain": plain(),
		"KubeVirt": strings.Replace(
			kubeVirt, `<metadata>`, `<description>a</description><metadata>`, 1,
		),
		"CloudStack":        cloudStack,
		"CloudStack, fixed": cloudStackFixed,
		"no cpu":            guest(twoVCPUs, "", ""),
		"no vcpu":           guest("", "", ""),
		"topology":          guest(twoVCPUs, topology+"</cpu>", ""),
		"listed":            guest(listed, topology+"</cpu>", ""),
		"cells": guest(
			twoVCPUs,
			topology+"<numa><cell id='0' cpus='0' memory='524288'/>"+
				"<cell id='1' cpus='1' memory='524288'/></numa></cpu>",
			"",
		),
		"hard limit": replaced(
			t, plain(), "<vcpu", "<memtune><hard_limit unit='GiB'>2</hard_limit></memtune><vcpu",
		),
		"locked": replaced(
			t, plain(), "<os>", "<memoryBacking><locked/></memoryBacking><os>",
		),
		"huge pages": replaced(
			t, plain(), "<os>",
			"<memoryBacking><hugepages><page size='1' unit='G'/></hugepages></memoryBacking><os>",
		),
	} {
		for _, o := range []headroom.Options{
			growthOptions(), dimmOptions(), {Memory: 4096, CPUs: 1}, {Memory: 1, CPUs: 8},
		} {
			expectAccepted(t, name, prepare(t, text, o).XML)
		}
	}
}

// libvirt's own test domains are under another licence. The test needs a copy outside this
// repository.
func TestLibvirtAcceptsItsOwnDomains(t *testing.T) {
	requireVirsh(t)
	files, err := filepath.Glob(
		filepath.Join("..", "..", "..", "shared", "data", "libvirt-memlock", "xml", "*.xml"),
	)
	if err != nil {
		t.Fatal(err)
	}
	if files == nil {
		t.Log("no copy of libvirt's test domains; TestLibvirtAcceptsPrepared covers our own")
		return
	}
	prepared := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.Replace(
			text, []byte("<devices>"), []byte("<features><acpi/></features><devices>"), 1,
		)
		r, err := headroom.Prepare(text, headroom.Options{Memory: 16384, CPUs: 8})
		if err != nil {
			if !strings.Contains(err.Error(), "want x86_64") {
				t.Errorf("%s: %v", file, err)
			}
			continue
		}
		prepared++
		expectAccepted(t, file, r.XML)
	}
	if prepared == 0 {
		t.Error("no domain was prepared")
	}
}
