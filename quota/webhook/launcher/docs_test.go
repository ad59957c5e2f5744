package launcher

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/quota/sidecar"
)

var (
	yamlBlock   = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	versionLine = regexp.MustCompile(`^# KubeVirt (\S+)\n`)
)

func readDoc(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "how-to",
		"launcher-webhook.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each VM in the documentation is followed by its launcher's annotations.
func TestDocumentedExamples(t *testing.T) {
	blocks := yamlBlock.FindAllStringSubmatch(readDoc(t), -1)
	if len(blocks) < 6 || len(blocks)%2 != 0 {
		t.Fatalf("found %d blocks, want pairs", len(blocks))
	}
	for i := 0; i < len(blocks); i += 2 {
		version := versionLine.FindStringSubmatch(blocks[i][1])
		vmi := &kubevirtv1.VirtualMachineInstance{}
		if err := yaml.UnmarshalStrict([]byte(blocks[i][1]), vmi); err != nil || version == nil {
			t.Fatalf("%v, version %q:\n%s", err, version, blocks[i][1])
		}
		pod := newPod(vmi.Annotations)
		// as recorded in the documentation
		pod.Spec.Containers[0].Resources = resources("200m", "2300Mi", "2", "3Gi")
		in := input(pod, vmi)
		in.Cluster = cluster(version[1])
		got, err := yaml.Marshal(
			map[string]any{"metadata": map[string]any{"annotations": mutated(t, in).Annotations}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(asYAML(t, blocks[i+1][1]), asYAML(t, string(got))); diff != "" {
			t.Errorf("%s (-documented +got)\n%s\n%s", vmi.Name, diff, got)
		}
	}
}

func asYAML(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.UnmarshalStrict([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// A table lists the annotations of users and of the webhook.
func TestDocumentedKeys(t *testing.T) {
	doc := readDoc(t)
	for _, key := range []string{
		api.InjectSidecarKey, api.InjectPreStopKey, api.AddedKey, api.RenderedKey,
		api.RequiresLockKey, api.GuestMemoryKey, api.OverheadKey, api.DevicesKey, api.ValueKey,
		api.LauncherKey,
	} {
		if !regexp.MustCompile("(?m)^\\|.*`" + regexp.QuoteMeta(key)).MatchString(doc) {
			t.Errorf("no table has %s", key)
		}
	}
}

// The figures in the documentation equal the figures in the code.
func TestDocumentedFigures(t *testing.T) {
	doc := strings.Join(strings.Fields(readDoc(t)), " ") // a figure may be split over two lines
	r := sidecar.Resources(false)
	for what, want := range map[string]string{
		"resources": r.Limits.Memory().String() + " and " + r.Requests.Cpu().String() + " to " +
			r.Limits.Cpu().String() + " CPU",
		"between": "waits for 15 seconds more", "after": "at least 45 seconds more",
		"least": "has 5 seconds less",
	} {
		if !strings.Contains(doc, want) {
			t.Errorf("%s: %q is not documented", what, want)
		}
	}
	if guestMargin.Seconds() != 15 || podMargin.Seconds() != 45 || minMargin.Seconds() != 5 ||
		maxGrace.Hours() != 1 || timeout.Seconds() != 3 {
		t.Error("other durations than are documented")
	}
}
