package kubevirtnode

import (
	"path/filepath"
	"slices"
	"testing"
)

// The programs of nodes have the versions of the programs of control planes.
func TestVersionsOfBothModules(t *testing.T) {
	planes, nodes := versions(t, "../kubevirt/components"), versions(t, "components")
	if !slices.Equal(planes, nodes) || len(nodes) == 0 {
		t.Errorf("versions of control planes %v, of nodes %v", planes, nodes)
	}
}

func versions(t *testing.T, components string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(components, "*", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	return names
}
