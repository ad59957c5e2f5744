package nodehook

import (
	"encoding/json"
	"fmt"

	"github.com/mooring-vm/mooring/agent/nodehook/v1alpha1"
)

// The hook points that the agent serves.
const (
	// PreVMStart follows virt-handler's own prlimit, and precedes the definition of the domain.
	// virt-handler repeats it until the VM runs.
	PreVMStart = "PreVMStart"

	// PostMigrationTarget follows the end of a migration, on the node of the target.
	PostMigrationTarget = "PostMigrationTarget"
)

// instance has the fields of a VirtualMachineInstance that identify its launcher.
type instance struct {
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		UID       string `json:"uid"`
	} `json:"metadata"`
	Status struct {
		// ActivePods maps UIDs of launcher pods to nodes.
		ActivePods     map[string]string `json:"activePods"`
		MigrationState struct {
			TargetPod string `json:"targetPod"`
		} `json:"migrationState"`
	} `json:"status"`
}

// String names the instance in messages.
func (i *instance) String() string {
	return fmt.Sprintf("%s/%s (UID %s)", i.Metadata.Namespace, i.Metadata.Name, i.Metadata.UID)
}

// parse checks a request to the agent of a node.
func parse(r *v1alpha1.ExecuteNodeHookRequest, node string) (*instance, error) {
	switch r.GetHookPoint() {
	case PreVMStart, PostMigrationTarget:
	default:
		return nil, fmt.Errorf("hookPoint %q: want %s or %s", r.GetHookPoint(), PreVMStart,
			PostMigrationTarget)
	}
	if got := r.GetNodeContext().GetNodeName(); got != node {
		return nil, fmt.Errorf("node_context.node_name %q: want %q, the agent's node", got, node)
	}
	i := &instance{}
	if err := json.Unmarshal(r.GetVmi(), i); err != nil {
		return nil, fmt.Errorf("vmi: want a VirtualMachineInstance in JSON: %w", err)
	}
	for _, field := range []struct{ name, value string }{
		{"namespace", i.Metadata.Namespace}, {"name", i.Metadata.Name}, {"uid", i.Metadata.UID},
	} {
		if field.value == "" {
			return nil, fmt.Errorf("vmi.metadata.%s: empty, want that of a VirtualMachineInstance",
				field.name)
		}
	}
	return i, nil
}
