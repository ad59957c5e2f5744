package cli

import "testing"

func TestGoldenVMs(t *testing.T) {
	a := startAgent(t, withVMs()...)
	goldens(t, a, map[string][]string{
		"vm-ps":       {"ps"},
		"vm-ps-wide":  {"ps", "-o", "wide"},
		"vm-ps-json":  {"ps", "-o", "json"},
		"vm-attended": {"inspect", "vms/virt-launcher-db-x7k2p"},
		"vm-waiting":  {"inspect", "virt-launcher-new-8dd4f"},
		"vm-draining": {"inspect", "virt-launcher-web-q9z1c"},
		"vm-leased":   {"inspect", "orphan"},
		"vm-hostile":  {"inspect", "hostile-vm"},
	})
}
