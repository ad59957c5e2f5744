package launcher

import (
	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/quota/sidecar"
)

// options are optional features requested by a VM or its namespace.
type options struct {
	sidecar api.Injection
	preStop bool
}

// readOptions reads the options. The pod's annotations, copied from its VM, take precedence over
// its namespace's.
func (m *mutation) readOptions() {
	var errs [2]error // about the namespace; api.Parse reports errors of the pod
	m.options.sidecar, errs[0] = sidecar.Requested(m.pod.Annotations, m.Namespace)
	m.options.preStop, errs[1] = sidecar.LauncherOrNamespace(m.pod.Annotations, m.Namespace,
		api.InjectPreStop)
	for _, err := range errs {
		if err != nil {
			m.warn("namespace: %v", err)
		}
	}
	if m.options.sidecar.Sidecar && m.Shim.Image == "" {
		m.options.sidecar = api.Injection{}
		m.warn("annotation %s requests mooring-shim, but its image is not configured",
			api.InjectSidecarKey)
	}
}

// resizable reports whether the VM can be resized in place: it has a sidecar, or a size is
// annotated.
func (in *Input) resizable() bool {
	_, own, _ := api.Sidecar(in.Pod.Annotations)
	requested, _ := sidecar.Requested(in.Pod.Annotations, in.Namespace)
	return own || requested.Sidecar && in.Shim.Image != "" ||
		len(resizeKeys(in.Pod.Annotations)) > 0
}
