package vmi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
)

// hooksAnnotation is KubeVirt's annotation for hook sidecars, on a VirtualMachineInstance and on
// its launcher pods.
const hooksAnnotation = "hooks.kubevirt.io/hookSidecars"

// shimProgram is the name of Mooring's hook.
const shimProgram = "mooring-shim"

// HookSidecar is an element of KubeVirt's annotation hooks.kubevirt.io/hookSidecars.
type HookSidecar struct {
	Image     string   `json:"image"`
	Command   []string `json:"command"`
	Args      []string `json:"args"`
	ConfigMap *struct {
		Name string `json:"name"`
	} `json:"configMap"`
}

// HookSidecars reads the hook sidecars from annotations. Without the annotation there are none. The
// error is a value that KubeVirt refuses, too.
func HookSidecars(annotations map[string]string) ([]HookSidecar, error) {
	text, ok := annotations[hooksAnnotation]
	if !ok {
		return nil, nil
	}
	var all []HookSidecar
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("annotation %s: want a JSON list of hook sidecars: %w",
			hooksAnnotation, err)
	}
	return all, nil
}

// IsMooring reports whether the sidecar is Mooring's hook, which adds no device.
func (h HookSidecar) IsMooring() bool {
	return len(h.Command) > 0 && path.Base(h.Command[0]) == shimProgram
}

// Name returns the sidecar's image, or else its ConfigMap.
func (h HookSidecar) Name() string {
	if h.ConfigMap != nil {
		return cmp.Or(h.Image, h.ConfigMap.Name)
	}
	return cmp.Or(h.Image, "no image")
}

// foreignHooks returns the names of hook sidecars other than Mooring's. KubeVirt starts no VM with
// an unreadable annotation, which counts as one sidecar.
func foreignHooks(annotations map[string]string) string {
	all, err := HookSidecars(annotations)
	if err != nil {
		return quoted([]string{annotations[hooksAnnotation]})
	}
	var names []string
	for _, h := range all {
		if !h.IsMooring() {
			names = append(names, h.Name())
		}
	}
	return quoted(names)
}
