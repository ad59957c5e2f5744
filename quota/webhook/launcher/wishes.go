package launcher

import (
	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/quota/sidecar"
)

// wishes are what a VM or its namespace asks for beside what the VM needs.
type wishes struct {
	sidecar api.Injection
	preStop bool
}

// wish reads the wishes. What the pod has is the VM's, and goes before its namespace's.
func (m *mutation) wish() {
	var errs [2]error // of the namespace; api.Parse has taken those of the pod
	m.wishes.sidecar, errs[0] = sidecar.Requested(m.pod.Annotations, m.Namespace)
	m.wishes.preStop, errs[1] = sidecar.LauncherOrNamespace(m.pod.Annotations, m.Namespace, api.InjectPreStop)
	for _, err := range errs {
		if err != nil {
			m.warn("namespace: %v", err)
		}
	}
	if m.wishes.sidecar.Sidecar && m.Shim.Image == "" {
		m.wishes.sidecar = api.Injection{}
		m.warn("annotation %s asks for mooring-shim, and no image of it is configured", api.InjectSidecarKey)
	}
}

// resizable reports whether the VM can be resized in place: something beside the launcher
// does it, or a size was asked for.
func (m *mutation) resizable() bool {
	_, own, _ := api.Sidecar(m.pod.Annotations)
	return own || m.wishes.sidecar.Sidecar || len(resizeKeys(m.pod.Annotations)) > 0
}
