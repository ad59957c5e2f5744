package suite

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/mooring-vm/mooring/agent/doctor"
)

// doctor runs `mooring doctor` on the node and returns its findings by check.
func (f fixture) doctor(t *testing.T, prefix string, args ...string) map[string]doctor.Finding {
	t.Helper()
	command := prefix + " /usr/local/bin/mooring doctor -o json " + strings.Join(args, " ")
	// 1: there are problems among the findings
	out := f.output(t, "sh", "-c", command+" || test $? = 1")
	var report doctor.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	findings := map[string]doctor.Finding{}
	for _, finding := range report.Findings {
		findings[finding.Check] = finding
	}
	return findings
}

func expect(t *testing.T, findings map[string]doctor.Finding, check string, status doctor.Status,
	found string) {
	t.Helper()
	if got := findings[check]; got.Status != status || !strings.Contains(got.Found, found) {
		t.Errorf("%s: %+v, want %s and %q", check, got, status, found)
	}
}

// On a good node, the doctor finds no problem, and its findings agree with the node's own
// programs.
func TestDoctor(t *testing.T) {
	f := setUp(t)
	findings := f.doctor(t, "")
	for check, found := range map[string]string{
		"kernel":             f.output(t, "uname", "-r"),
		"btf":                "/sys/kernel/btf/vmlinux",
		"cgroup-v2":          "cgroup v2",
		"nri":                "the agent is connected",
		"nri-timeouts":       "request 2s",
		"pod-directories":    "/run/mooring",
		"agent":              "mode enforce, NRI Synchronized",
		"agent-capabilities": "CAP_SYS_RESOURCE, CAP_BPF, CAP_PERFMON, CAP_KILL",
		"bpffs":              "/sys/fs/bpf",
		"hook":               "/usr/local/libexec/mooring/mooring-hook",
		"tracker":            "processes",
		"neighbours":         "none found",
	} {
		expect(t, findings, check, doctor.OK, found)
	}
	root := f.output(t, "cat", "/sys/fs/cgroup/cgroup.controllers")
	controllers := doctor.OK
	// The controllers of a slice depend on the pods of other tests.
	if f.output(t, "sh", "-c",
		"cat /sys/fs/cgroup/kubepods.slice/cgroup.subtree_control || cat "+
			"/sys/fs/cgroup/cgroup.controllers") != root {
		controllers = doctor.Note
	}
	expect(t, findings, "cgroup-controllers", controllers, root)
	expect(t, findings, "kubelet", doctor.Note, "no process")
	oci := doctor.OK // the node's Debian decides the version of runc
	if runc := f.version(t, "runc"); !runc.AtLeast(version.MustParseGeneric("1.2")) {
		oci = doctor.Note
	}
	expect(t, findings, "oci-runtime", oci, "runc "+f.version(t, "runc").String())
	f.expectRuntime(t, findings)
	limits := f.output(t, "sh", "-c", "grep 'Max locked' /proc/$(pidof containerd)/limits")
	if !strings.Contains(limits, "8388608") {
		t.Fatalf("containerd has another limit than usual: %s", limits)
	}
	expect(t, findings, "default-memlock", doctor.OK, "soft 8Mi, hard 8Mi")
}

// expectRuntime checks the findings that depend on the node's containerd.
func (f fixture) expectRuntime(t *testing.T, findings map[string]doctor.Finding) {
	t.Helper()
	v := f.containerdVersion(t)
	r := f.runtime(t)
	containerd, validator, policy := doctor.OK, doctor.OK, doctor.Note
	if !r.features(t).validator {
		containerd, validator = doctor.Note, doctor.Problem
	}
	if r.features(t).failurePolicy {
		policy = doctor.OK
	}
	expect(t, findings, "containerd", containerd, v.String())
	expect(t, findings, "validator", validator, "")
	expect(t, findings, "failure-policy", policy, "NRI "+r.nri)
}

// version runs a program of the node with --version, and returns the first version number in
// the output.
func (f fixture) version(t *testing.T, program string) *version.Version {
	t.Helper()
	for _, word := range strings.Fields(f.output(t, program, "--version")) {
		if v, err := version.ParseGeneric(word); err == nil {
			return v
		}
	}
	t.Fatalf("%s prints no version", program)
	return nil
}

// The problems are another configuration of containerd, and a stopped agent.
func TestDoctorFindsProblems(t *testing.T) {
	f := setUp(t)
	const copied = "/tmp/doctor-config.toml"
	f.output(t, "sh", "-c", "containerd config dump >"+copied)
	own := f.doctor(t, "", "--containerd-config="+copied)
	expect(t, own, "nri", doctor.OK, "connected")

	f.output(t, "sh", "-c",
		`printf 'version = 3\n[plugins."io.containerd.nri.v1.nri"]\n  disable = true\n' >`+copied)
	changed := f.doctor(t, "", "--containerd-config="+copied)
	expect(t, changed, "nri", doctor.Problem, "switched off by "+copied)
	expect(t, changed, "validator", doctor.Problem, "")
	code, err := f.Output(t.Context(), "sh", "-c",
		"mooring doctor --containerd-config="+copied+" >/dev/null; echo $?")
	if err != nil || code != "1" {
		t.Errorf("exit code %q, %v; want 1", code, err)
	}

	if err := f.agent.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	away := f.doctor(t, "")
	if err := f.agent.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, away, "agent", doctor.Problem, "not running")
	expect(t, away, "nri", doctor.OK, "on, at /var/run/nri/nri.sock")
}

// Some plugins connect by themselves. containerd starts others.
func TestDoctorFindsNeighbours(t *testing.T) {
	f := setUp(t)
	f.pushNeighbour(t)
	stop := f.startNeighbour(t, "10")
	// containerd reads this directory only at its start
	const installed = "/opt/nri/plugins/20-installed"
	f.output(t, "sh", "-c", "mkdir -p /opt/nri/plugins && touch "+installed)
	findings := f.doctor(t, "")
	f.output(t, "rm", installed)
	stop()
	expect(t, findings, "neighbours", doctor.Note,
		"started by containerd: 20-installed; connected: suite-neighbour (pid ")
	eventually(t, "the neighbour to be gone", func() bool {
		findings = f.doctor(t, "")
		return findings["neighbours"].Status == doctor.OK
	}, func() string { return findings["neighbours"].Found })
}

// Findings that need root are unknown, and no problem.
func TestDoctorWithoutRoot(t *testing.T) {
	f := setUp(t)
	findings := f.doctor(t, "setpriv --reuid=65534 --regid=65534 --clear-groups")
	for _, check := range []string{"containerd", "agent", "nri"} {
		expect(t, findings, check, doctor.Unknown, "permission denied")
	}
	expect(t, findings, "kernel", doctor.OK, "")
	expect(t, findings, "default-memlock", doctor.OK, "soft 8Mi, hard 8Mi")
}
