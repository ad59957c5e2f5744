// Package yamldoc checks that a file holds one YAML document. Decoders read the first document of
// a file and ignore the others.
package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	goyaml "go.yaml.in/yaml/v2"
)

var (
	// ErrEmpty means that no document has content.
	ErrEmpty = errors.New("the file is empty")

	// ErrSeveral means that a document after the first one has content.
	ErrSeveral = errors.New("the file has more than one YAML document: want one")
)

// CheckOne returns nil if data holds exactly one YAML document with content. Other errors than
// [ErrEmpty] and [ErrSeveral] mean that data is no valid YAML.
func CheckOne(data []byte) error {
	empty := true
	d := goyaml.NewDecoder(bytes.NewReader(data))
	for n := 0; ; n++ {
		var v any
		err := d.Decode(&v)
		switch {
		case errors.Is(err, io.EOF) && empty:
			return ErrEmpty
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("no valid YAML: %w", err)
		case v != nil && n > 0:
			return ErrSeveral
		}
		empty = empty && v == nil
	}
}
