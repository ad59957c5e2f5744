package decide

import (
	"maps"
	"slices"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// Report returns the parts of the facts that [FactsOf] needs to decide about the launcher again.
func (f Facts) Report() *agentapi.Facts {
	r := &agentapi.Facts{Annotations: f.deciding(), CPUs: f.CPUs, HugePages: f.HugePages}
	if _, annotated, _ := api.Launcher(f.Annotations); !annotated {
		r.Labels = f.Labels
	}
	if f.ServiceAccountKnown {
		r.ServiceAccount = new(f.ServiceAccount)
	}
	return r
}

// deciding returns the annotations that can change a decision about the container.
func (f Facts) deciding() map[string]string {
	kept := maps.Clone(f.Annotations)
	maps.DeleteFunc(kept, func(key, _ string) bool {
		return !api.Relevant(map[string]string{key: ""}) && key != KubeVirtOverheadKey &&
			!slices.Contains(f.ulimitAdjusterKeys(), key)
	})
	return kept
}

// FactsOf returns the facts about a reported launcher as for its next creation. ok is false
// if the report lacks them.
//
// The inherited limit is the one of a yielded setting. The facts have nothing about the node.
func FactsOf(l *agentapi.Launcher) (f Facts, ok bool) {
	r := l.Facts
	if r == nil {
		return Facts{}, false
	}
	f = Facts{
		Pod: l.Pod, Container: l.Container.Name, Labels: r.Labels, Annotations: r.Annotations,
		MemoryLimit: l.Limits.Memory, CPUs: r.CPUs, HugePages: r.HugePages,
	}
	if r.ServiceAccount != nil {
		f.ServiceAccount, f.ServiceAccountKnown = *r.ServiceAccount, true
	}
	f.Inherited = Inherited(l)
	return f, true
}
