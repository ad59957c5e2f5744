package api_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
)

func readDoc(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var textBlock = regexp.MustCompile("(?ms)^```text\n(.*?)^```$")

func TestAnnotationsAreDocumented(t *testing.T) {
	inTable(t, readDoc(t, "reference/cgroup-files.md"), api.CgroupFiles()...)
	inTable(t, readDoc(t, "reference/annotations.md"),
		api.LauncherKey, api.SidecarKey, api.APIVersionKey, api.RequiresLockKey, api.ValueKey,
		api.GuestMemoryKey, api.OverheadKey, api.DevicesKey, "<file>"+api.CgroupSuffix,
		api.GracePeriodKey, api.WatchdogKey, api.DomainKey, api.VCPUsKey, api.ResizeMemoryKey,
		api.CPUQuotaKey, api.CPUSharesKey,
		api.InjectSidecarKey, api.InjectPreStopKey, api.AddedKey, api.RenderedKey, api.APIVersion,
		api.Unlimited)
}

func inTable(t *testing.T, doc string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !regexp.MustCompile("(?m)^\\|.*`" + regexp.QuoteMeta(word) + "`").MatchString(doc) {
			t.Errorf("no table has %s", word)
		}
	}
}

// The documented message must be the program's message.
func TestDocumentedError(t *testing.T) {
	_, err := api.Parse(map[string]string{api.ValueKey: "16Gb"}, "compute")
	for _, block := range textBlock.FindAllStringSubmatch(readDoc(t, "reference/annotations.md"),
		-1) {
		if strings.TrimSpace(block[1]) != err.Error() {
			t.Errorf("the documentation shows\n%s\nand users see\n%v", block[1], err)
		}
	}
}
