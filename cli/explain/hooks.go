package explain

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/memlock"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/memlock/kubevirt/vmi"
)

// hookContainer is the prefix of KubeVirt's names of containers with hook sidecars. Network binding
// plugins have such sidecars, too.
const hookContainer = "hook-sidecar-"

// unknownLock returns a note if the launcher asks for no memory lock, and hook sidecars of the pod
// may give its domain devices. An annotation that requires a lock or refuses one decides.
func unknownLock(pod *corev1.Pod, f decide.Facts) []string {
	if _, _, decided := api.Effective(f.Annotations, api.RequiresLockKey, f.Container); decided {
		return nil
	}
	names := foreignHooks(pod)
	if len(names) == 0 {
		return nil
	}
	lock := memlock.Result{Unknown: []string{kubevirt.UnknownHooks(strings.Join(names, ", "))}}
	return []string{"the memory lock that the VM needs is " + lock.String()}
}

// foreignHooks returns the containers of hook sidecars in quotes, without Mooring's.
func foreignHooks(pod *corev1.Pod) (names []string) {
	for _, c := range containersOf(pod) {
		own := vmi.HookSidecar{Command: c.Command}.IsMooring()
		if strings.HasPrefix(c.Name, hookContainer) && !own {
			names = append(names, api.Quote(c.Name))
		}
	}
	slices.Sort(names)
	return names
}
