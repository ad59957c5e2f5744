package podserver

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api/podapi"
)

// Every resource, code and field is documented.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "pod-socket.md"))
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	for _, path := range []string{
		podapi.PathObserved, podapi.PathLock, podapi.PathMemoryRequirement, podapi.PathHold,
		podapi.PathLease, podapi.PathDesired, podapi.PathChanges, podapi.PathReport,
		podapi.PathStop, podapi.PathHeadroom,
	} {
		if !strings.Contains(doc, path+"`") {
			t.Errorf("docs/reference/pod-socket.md does not have %s", path)
		}
	}
	for code := range statuses {
		if !strings.Contains(doc, "| `"+code+"` | ") {
			t.Errorf("docs/reference/pod-socket.md does not have code %s", code)
		}
	}
	for _, v := range []any{podapi.Observed{}, podapi.Desired{}, podapi.DryRun{}, podapi.Change{},
		podapi.Stop{}, podapi.Report{}, podapi.Step{}, podapi.Actual{}, podapi.Limits{},
		podapi.Headroom{}, podapi.Bound{}} {
		for _, name := range names(reflect.TypeOf(v)) {
			if !strings.Contains(doc, "`"+name+"`") && !strings.Contains(doc, `"`+name+`"`) {
				t.Errorf("docs/reference/pod-socket.md does not have %s of %T", name, v)
			}
		}
	}
}

func names(of reflect.Type) (all []string) {
	for field := range of.Fields() {
		if field.Anonymous {
			all = append(all, names(field.Type)...)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		all = append(all, name)
	}
	return all
}
