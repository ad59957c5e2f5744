package kubevirttest

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// headroomPaths matches the XML paths changed by the sidecar.
var headroomPaths = regexp.MustCompile(
	`^/domain/(vcpus?|maxMemory|memory|currentMemory|cpu/topology@sockets|cpu/numa|devices/memory)\b`)

// lines flattens a tree into one line for each element, attribute and text, in order.
func lines(t testing.TB, text string) (all []string) {
	t.Helper()
	in := xml.NewDecoder(strings.NewReader(text))
	path := ""
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		switch x := token.(type) {
		case xml.StartElement:
			path += "/" + x.Name.Local
			all = append(all, path)
			for _, a := range x.Attr {
				all = append(all, fmt.Sprintf("%s@%s=%q", path, a.Name.Local, a.Value))
			}
		case xml.EndElement:
			path = path[:strings.LastIndexByte(path, '/')]
		case xml.CharData:
			if word := strings.TrimSpace(string(x)); word != "" {
				all = append(all, fmt.Sprintf("%s=%q", path, word))
			}
		}
	}
}

// otherLines returns the lines outside the sidecar's paths. ours returns the lines inside.
func otherLines(t testing.TB, text string) []string {
	t.Helper()
	return slices.DeleteFunc(lines(t, text), headroomPaths.MatchString)
}

func headroomLines(t testing.TB, text string) []string {
	t.Helper()
	return slices.DeleteFunc(lines(t, text), func(line string) bool {
		return !headroomPaths.MatchString(line)
	})
}

// missing returns the lines absent from others.
func missing(lines, others []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool { return slices.Contains(others, line) })
}
