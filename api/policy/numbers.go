package policy

import (
	"fmt"
	"regexp"

	yamlv3 "go.yaml.in/yaml/v3"
)

// wantDigits is the reason to refuse a number that YAML would change.
const wantDigits = "want decimal digits only, without leading zero, base, exponent, underscore " +
	"or fraction; YAML reads other numbers differently than people do"

// decimal is a whole number that reads the same in every version of YAML.
var decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// oddNumbers returns the spelling of each number other than decimal digits, by path. YAML reads 010
// as 8, 0x10 as 16, and rounds 9007199254740993.0.
func oddNumbers(data []byte) (map[string]string, error) {
	var root yamlv3.Node
	if err := yamlv3.Unmarshal(data, &root); err != nil {
		return nil, fmt.Errorf("policy: no valid YAML: %w", err)
	}
	odd := map[string]string{}
	findOdd(odd, "", &root)
	return odd, nil
}

// findOdd adds the odd numbers at and below a node of the document.
func findOdd(odd map[string]string, path string, n *yamlv3.Node) {
	switch n.Kind {
	case yamlv3.DocumentNode:
		findOdd(odd, path, n.Content[0])
	case yamlv3.AliasNode:
		findOdd(odd, path, n.Alias)
	case yamlv3.SequenceNode:
		for i, element := range n.Content {
			findOdd(odd, fmt.Sprintf("%s[%d]", path, i), element)
		}
	case yamlv3.MappingNode:
		findOddFields(odd, path, n.Content)
	case yamlv3.ScalarNode:
		delete(odd, path) // of a merged mapping
		if tag := n.ShortTag(); (tag == "!!int" || tag == "!!float") &&
			!decimal.MatchString(n.Value) {
			odd[path] = n.Value
		}
	}
}

// findOddFields reads pairs of keys and values. A field replaces the one of a merged mapping.
func findOddFields(odd map[string]string, path string, pairs []*yamlv3.Node) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i].ShortTag() == "!!merge" {
			findMerged(odd, path, pairs[i+1])
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i].ShortTag() != "!!merge" {
			findOdd(odd, joinPath(path, pairs[i].Value), pairs[i+1])
		}
	}
}

// findMerged reads the value of a merge key: one mapping, or several, of which the first wins.
func findMerged(odd map[string]string, path string, n *yamlv3.Node) {
	if n.Kind != yamlv3.SequenceNode {
		findOdd(odd, path, n)
		return
	}
	for i := len(n.Content) - 1; i >= 0; i-- {
		findOdd(odd, path, n.Content[i])
	}
}

func joinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
