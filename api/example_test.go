package api_test

import (
	"fmt"

	"github.com/mooring-vm/mooring/api"
)

// Two admission webhooks change the same launcher pod, one after the other. The first belongs to a
// vDPA network binding, the second to a GPU with a driver that locks memory.
func ExampleAddLockable() {
	pod := map[string]string{"launcher.mooring.dev": "compute"}
	for _, bytes := range []int64{1 << 30, 512 << 20} {
		if err := api.AddLockable(pod, bytes); err != nil {
			fmt.Println(err) // refuse the pod
			return
		}
	}
	fmt.Println(pod[api.RequiresLockKey], pod[api.ValueKey])

	request, err := api.Parse(pod, "compute")
	fmt.Println(request.Value, err)
	// Output:
	// true 1536Mi
	// 1536Mi <nil>
}

func ExampleParse() {
	_, err := api.Parse(map[string]string{
		"value.memlock.mooring.dev":      "16Gb",
		"memory.max.cgroup.mooring.dev":  "9Gi",
		"vcpus.resize.mooring.dev/pods":  "4",
		"memory.high.cgroup.mooring.dev": "9Gi",
	}, "compute")
	fmt.Println(err)
	// Output:
	// annotation memory.max.cgroup.mooring.dev: "9Gi": memory.max is the container's memory limit and belongs to kubelet: set resources.limits.memory of the container
	// annotation value.memlock.mooring.dev: "16Gb": want a whole number of bytes as a quantity such as 4Gi, 1.5Gi or 500M, without sign, space, exponent or fraction of a byte; or "unlimited"
	// annotation vcpus.resize.mooring.dev/pods: "4": unknown scope: want vcpus.resize.mooring.dev, vcpus.resize.mooring.dev/pod or vcpus.resize.mooring.dev/container.NAME
}
