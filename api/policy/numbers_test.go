package policy

import (
	"fmt"
	"strings"
	"testing"
)

// YAML reads 010 as 8, and a ceiling of 8 bytes is never the intention.
func TestParseRefusesOddNumbers(t *testing.T) {
	for _, number := range []string{"010", "0x10", "0b11", "0o17", "1_000_000", "1e12",
		"+1073741824", "9007199254740993.0", "1073741824.0", "!!int '010'", "0.1e13"} {
		shown := strings.Trim(strings.TrimPrefix(number, "!!int "), "'")
		for path, text := range map[string]string{
			"memlock.nodeMax":         "memlock: {nodeMax: %s}",
			"spec.memlock.nodeMax":    "spec: {memlock: {nodeMax: %s}}",
			"rules[0].memlock.max":    "rules: [{name: a, namespaces: [a], memlock: {max: %s}}]",
			"headroom.memoryCapacity": "headroom: {memoryCapacity: %s}",
			"headroom.cpuCapacity":    "headroom: {cpuCapacity: %s}",
			"spec.priority":           "spec: {priority: %s}",
		} {
			_, err := Parse([]byte(head + fmt.Sprintf(text, number)))
			if want := path + ": " + shown + ": want"; err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", fmt.Sprintf(text, number), err, want)
			}
		}
	}
}

// An anchor can put a number elsewhere.
func TestParseFindsOddNumbersBehindAliases(t *testing.T) {
	const rule = "rules: [{name: a, namespaces: [a], memlock: &m {max: 010}}, " +
		"{name: b, namespaces: [a], memlock: "
	for text, wrong := range map[string]bool{
		"*m}]": true, "{<<: *m}}]": true, "{<<: [{unlimited: true}, *m]}}]": true,
		"{<<: *m, max: 1Gi}}]": false, "{max: 1Gi, <<: *m}}]": false,
		"{<<: [{max: 1Gi}, *m]}}]": false,
	} {
		_, err := Parse([]byte(head + rule + text))
		if err == nil || strings.Contains(err.Error(), "rules[1].memlock.max: 010") != wrong {
			t.Errorf("%s: %v", text, err)
		}
	}
}
