package gate

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxDefinition bounds the size of a domain's definition, in bytes.
const maxDefinition = 4 << 20

// definition is the used part of a domain's definition.
type definition struct {
	name string
	uuid string // in lower case
}

// readDefinition reads a definition. A truncated definition is an error.
func readDefinition(from io.Reader) (d definition, err error) {
	limited := &io.LimitedReader{R: from, N: maxDefinition}
	var parsed struct {
		XMLName xml.Name
		Name    []string `xml:"name"`
		UUID    []string `xml:"uuid"`
	}
	err = xml.NewDecoder(limited).Decode(&parsed)
	switch {
	case limited.N == 0:
		return d, fmt.Errorf("more than %d bytes: want at most that", maxDefinition)
	case errors.Is(err, io.EOF):
		return d, io.ErrUnexpectedEOF
	case err != nil:
		return d, err
	case parsed.XMLName.Local != "domain":
		return d, fmt.Errorf("root element %q: want domain", parsed.XMLName.Local)
	case len(parsed.Name) != 1 || len(parsed.UUID) != 1:
		return d, fmt.Errorf("%d names and %d UUIDs: want one of each",
			len(parsed.Name), len(parsed.UUID))
	}
	return definition{
		name: parsed.Name[0], uuid: strings.ToLower(strings.TrimSpace(parsed.UUID[0])),
	}, nil
}
