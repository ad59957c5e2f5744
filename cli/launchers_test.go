package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNames expects a line for each pod: two for pods of one name in two namespaces, and one for two
// launchers of a pod.
func TestNames(t *testing.T) {
	var all []nodeLauncher
	for _, pod := range [][2]string{{"a", "vm-1"}, {"b", "vm-1"}, {"b", "vm-1"}, {"b", "vm-2"}} {
		all = append(all, nodeLauncher{Launcher: running(pod[0], pod[1], 0)})
	}
	want := []string{"pod/vm-1", "pod/vm-1", "pod/vm-2"}
	if diff := cmp.Diff(want, names(all)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
