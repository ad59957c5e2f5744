package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mooring-vm/mooring/api/policy"
)

const (
	oneUUID = "5530f9f3-5627-4dec-933e-74ce04c51e18"
	twoUUID = "0a3c2d44-9a0e-4c1f-8d5b-3d1f0d5f7a11"
)

func writeRecord(t *testing.T, dir, name, uuid string) {
	t.Helper()
	record := fmt.Sprintf("<domstatus state='running' reason='booted' pid='7'><domain "+
		"type='kvm'><name>%s</name><uuid>%s</uuid></domain></domstatus>", name, uuid)
	if err := os.WriteFile(filepath.Join(dir, name+".xml"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDomainNames(t *testing.T) {
	dir := t.TempDir()
	writeRecord(t, dir, "one", oneUUID)
	p := &policy.Policy{Lifecycle: policy.Lifecycle{Libvirt: &policy.Libvirt{Records: dir}}}
	n := newDomainNames(p, discard)
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"one", oneUUID, true}, {oneUUID, "one", true}, {"two", twoUUID, false},
		{"one", "two", false}, {"", oneUUID, false}, {"two", "", false}, {"one", twoUUID, false},
	} {
		if got := n.Same(c.a, c.b); got != c.want {
			t.Errorf("Same(%q, %q) = %t", c.a, c.b, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done, changes := make(chan struct{}), make(chan struct{}, 1)
	changed := func() {
		select {
		case changes <- struct{}{}:
		default:
		}
	}
	go func() { defer close(done); n.watch(ctx, changed) }()
	writeRecord(t, dir, "two", twoUUID)
	eventually(t, "the second domain", func() bool { return n.Same("two", twoUUID) })
	receive(t, changes, "the call for the change")
	cancel()
	receive(t, done, "the end of the watch")
}

func TestNoDomainNamesWithoutLibvirt(t *testing.T) {
	if n := newDomainNames(&policy.Policy{}, discard); n != nil {
		t.Errorf("names %+v without a libvirt", n)
	}
}

// The plugin recognises the name and the UUID of one domain by libvirt's records.
func TestAgentKnowsDomainNames(t *testing.T) {
	config, dir := testConfig(t), t.TempDir()
	writeRecord(t, dir, "one", oneUUID)
	withLibvirt := testPolicy + "lifecycle: {libvirt: {records: " + dir + "}}\n"
	if err := os.WriteFile(config.Policy, []byte(withLibvirt), 0o600); err != nil {
		t.Fatal(err)
	}
	a := start(t, config)
	if !a.plugin.Domains.Same("one", oneUUID) {
		t.Error("two pods can claim one domain: one by its name, one by its UUID")
	}
	writeRecord(t, dir, "two", twoUUID)
	eventually(t, "the second domain", func() bool { return a.plugin.Domains.Same("two", twoUUID) })
}
