package command

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/quota"
)

func TestWebhookOptions(t *testing.T) {
	c := defaultWebhookConfig()
	c.Names, c.Exempt = []string{"localhost"},
		[]string{"system:serviceaccount:cattle-system:rancher"}
	o := c.options("ns", quota.Options{Prefix: "example.com/"}, slog.New(slog.DiscardHandler))
	if diff := cmp.Diff([]string{"mooring-controller.ns.svc", "mooring-controller.ns", "localhost"},
		o.Names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if got := o.Secret.String(); got != "ns/mooring-webhook-certificates" {
		t.Errorf("secret %s", got)
	}
	want := []string{"system:serviceaccount:ns:mooring-controller",
		"system:serviceaccount:cattle-system:rancher"}
	if diff := cmp.Diff(want, o.Exempt); diff != "" {
		t.Errorf("exempt (-want +got):\n%s", diff)
	}
	if o.Quota.Prefix != "example.com/" {
		t.Errorf("prefix %q", o.Quota.Prefix)
	}
}

func TestNamespace(t *testing.T) {
	if got, err := (&Config{LeaseNamespace: "ns"}).namespace(); got != "ns" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := (&Config{}).namespace(); err == nil ||
		!strings.Contains(err.Error(), "--lease-namespace") {
		t.Errorf("got %v, want an error with a remedy", err)
	}
}
