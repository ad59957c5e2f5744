package headroom

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// element is an XML element and its place in the text. [start:contentStart] is the start tag,
// [contentEnd:end] the end tag. For a self-closing tag contentStart, contentEnd and end are equal.
type element struct {
	name                                 string // "" in a namespace, unlike libvirt's elements
	qualified                            xml.Name
	attrs                                []xml.Attr
	start, contentStart, contentEnd, end int
	parent                               *element
	children                             []*element

	text      string // all character data
	textSpans []span // the spans of text that are not white space
}

// span is a part of the text.
type span struct{ from, to int }

// parse reads a text with one root element.
func parse(text []byte) (*element, error) {
	in := xml.NewDecoder(bytes.NewReader(text))
	in.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	top := &element{}
	current := top
	for {
		from := int(in.InputOffset())
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("domain XML: %w", err)
		}
		current = current.add(token, span{from, int(in.InputOffset())})
	}
	if len(top.children) != 1 {
		return nil, fmt.Errorf("domain XML: %d root elements: want one", len(top.children))
	}
	return top.children[0], nil
}

// add adds a token and returns the element that the next token belongs to.
func (e *element) add(token xml.Token, s span) *element {
	switch t := token.(type) {
	case xml.StartElement:
		child := &element{
			qualified: t.Name, attrs: t.Attr, start: s.from, contentStart: s.to, parent: e,
		}
		if t.Name.Space == "" {
			child.name = t.Name.Local
		}
		e.children = append(e.children, child)
		return child
	case xml.EndElement:
		e.contentEnd, e.end = s.from, s.to
		return e.parent
	case xml.CharData:
		e.text += string(t)
		if len(bytes.TrimSpace(t)) > 0 {
			e.textSpans = append(e.textSpans, s)
		}
	}
	return e
}

// first returns the first descendant on the path, or nil.
func (e *element) first(path ...string) *element {
	for _, name := range path {
		all := e.all(name)
		if len(all) == 0 {
			return nil
		}
		e = all[0]
	}
	return e
}

// all returns the children with the name.
func (e *element) all(name string) (found []*element) {
	if e == nil {
		return nil
	}
	for _, c := range e.children {
		if c.name == name {
			found = append(found, c)
		}
	}
	return found
}

// attr returns an attribute's value, or "".
func (e *element) attr(name string) string {
	if e == nil {
		return ""
	}
	for _, a := range e.attrs {
		if a.Name.Space == "" && a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func (e *element) value() string {
	if e == nil {
		return ""
	}
	return strings.TrimSpace(e.text)
}
