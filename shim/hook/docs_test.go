package hook_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/hook"
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// KubeVirt and the sidecar accept the documented annotation. Each flag is documented.
func TestDocs(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "headroom.md"))
	if err != nil {
		t.Fatal(err)
	}
	var vmi struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := yaml.Unmarshal(yamlBlock.FindSubmatch(doc)[1], &vmi); err != nil {
		t.Fatal(err)
	}
	var sidecars []struct {
		Image         string
		Command, Args []string
	}
	annotation := vmi.Metadata.Annotations["hooks.kubevirt.io/hookSidecars"]
	if err := json.Unmarshal([]byte(annotation), &sidecars); err != nil || len(sidecars) != 1 {
		t.Fatalf("%v: %+v", err, sidecars)
	}
	var c hook.Config
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.AddFlags(flags)
	if err := flags.Parse(sidecars[0].Args); err != nil {
		t.Fatal(err)
	}
	want := hook.Config{
		Version: "v1alpha3",
		Socket:  hook.DefaultSocket,
		Options: headroom.Options{Memory: 16384, CPUs: 8, Slots: headroom.DefaultSlots},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(string(doc), "| `--"+f.Name) {
			t.Errorf("--%s is not documented", f.Name)
		}
	})
}
