package nodeimage

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

// baseSpec is the spec that containerd starts from for each container: `ctr oci spec` without
// resource limits. kind's hook that hides the machine's product files is left out: it starts four
// processes for each container.
func baseSpec(ctx context.Context, p parts) ([]byte, error) {
	out, err := output(child.Isolated(ctx, filepath.Join(p.containerd.Dir, "ctr"), "oci", "spec"))
	if err != nil {
		return nil, err
	}
	var spec map[string]any
	if err := json.Unmarshal([]byte(out), &spec); err != nil {
		return nil, fmt.Errorf("reading the spec of ctr: %w", err)
	}
	if process, ok := spec["process"].(map[string]any); ok {
		delete(process, "rlimits")
	}
	return json.Marshal(spec)
}
