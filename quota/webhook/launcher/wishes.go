package launcher

import (
	"github.com/mooring-vm/mooring/api"
)

// wishes are what a VM or its namespace asks for beside what the VM needs.
type wishes struct {
	sidecar api.Injection
	preStop bool
}

// wish reads the wishes. What the pod has is the VM's, and goes before its namespace's.
func (m *mutation) wish() {
	m.wishes.sidecar = wished(m, api.InjectSidecar)
	m.wishes.preStop = wished(m, api.InjectPreStop)
	if m.wishes.sidecar.Sidecar && m.Shim.Image == "" {
		m.wishes.sidecar = api.Injection{}
		m.warn("annotation %s asks for mooring-shim, and no image of it is configured", api.InjectSidecarKey)
	}
}

// wished reads one of them.
func wished[T any](m *mutation, read func(map[string]string) (T, bool, error)) T {
	v, ok, _ := read(m.pod.Annotations) // api.Parse has taken them
	if ok {
		return v
	}
	v, _, err := read(m.Namespace)
	if err != nil {
		m.warn("namespace: %v", err)
	}
	return v
}

// resizable reports whether the VM can be resized in place: something beside the launcher
// does it, or a size was asked for.
func (m *mutation) resizable() bool {
	_, sidecar, _ := api.Sidecar(m.pod.Annotations)
	return sidecar || m.wishes.sidecar.Sidecar || len(resizeKeys(m.pod.Annotations)) > 0
}
