package policy

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func readDoc(t *testing.T) string {
	t.Helper()
	return readPage(t, "policy.md")
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	textBlock = regexp.MustCompile("(?ms)^```text\n(.*?)^```$")
)

// Every example is a policy, possibly without apiVersion and kind.
func TestPolicyExamples(t *testing.T) {
	blocks := yamlBlock.FindAllStringSubmatch(readDoc(t)+readPage(t, "node-policy.md"), -1)
	if len(blocks) < 3 {
		t.Fatalf("found %d examples", len(blocks))
	}
	for _, block := range blocks {
		text := block[1]
		if !strings.Contains(text, "apiVersion:") {
			text = head + text
		}
		p, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("%v:\n%s", err, text)
			continue
		}
		checkSound(t, p)
	}
}

func TestFieldsAreDocumented(t *testing.T) {
	doc := readDoc(t)
	for _, path := range fieldPaths(reflect.TypeFor[document](), "") {
		if path == "metadata" || path == "status" { // in one row
			path = "metadata`, `status"
		}
		if !strings.Contains(doc, "\n| `"+path+"` |") {
			t.Errorf("%s is not in the table", path)
		}
	}
}

// fieldPaths lists the leaves, the lists and the optional parts of a document.
func fieldPaths(doc reflect.Type, prefix string) (paths []string) {
	for field := range doc.Fields() {
		path := prefix + field.Tag.Get("json")
		switch {
		case field.Anonymous && prefix != "": // spec repeats the fields of the file
		case field.Anonymous:
			paths = append(paths, fieldPaths(field.Type, prefix)...)
		case field.Type.Kind() == reflect.Pointer:
			paths = append(paths, path)
			paths = append(paths, fieldPaths(field.Type.Elem(), path+".")...)
		case field.Type.Kind() == reflect.Struct:
			paths = append(paths, fieldPaths(field.Type, path+".")...)
		case field.Type.Kind() == reflect.Slice && field.Type.Elem().Kind() == reflect.Struct:
			paths = append(paths, path)
			paths = append(paths, fieldPaths(field.Type.Elem(), path+"[].")...)
		default:
			paths = append(paths, path)
		}
	}
	return paths
}

// The documented message must be the program's message.
func TestDocumentedError(t *testing.T) {
	_, err := Parse([]byte(head + "rules: [{name: a, namespaces: [a]}, {name: b, namespaces: " +
		"[b], memlock: {max: 16Gb}}]"))
	for _, block := range textBlock.FindAllStringSubmatch(readDoc(t), -1) {
		if !strings.HasSuffix(strings.TrimSpace(block[1]), ": "+err.Error()) {
			t.Errorf("the documentation shows\n%s\nand users see\n%v", block[1], err)
		}
	}
}
