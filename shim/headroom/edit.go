package headroom

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// document is an XML text with a list of edits.
type document struct {
	text  []byte
	root  *element
	edits []edit
}

// edit replaces a possibly empty span of the text. Edits at the same place apply in the order of
// their addition.
type edit struct {
	span
	text string
}

// attribute matches one attribute of a start tag. Each match covers name and value, so a name
// inside a value never matches.
var attribute = regexp.MustCompile(`([^\s=<>/"']+)\s*=\s*("[^"]*"|'[^']*')`)

// result returns the text with all edits applied.
func (d *document) result() []byte {
	slices.SortStableFunc(d.edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var out bytes.Buffer
	at := 0
	for _, e := range d.edits {
		out.Write(d.text[at:e.from])
		out.WriteString(e.text)
		at = e.to
	}
	out.Write(d.text[at:])
	return out.Bytes()
}

func (d *document) replace(s span, text string) { d.edits = append(d.edits, edit{s, text}) }

// setNumber replaces the number in an element. Comments around the number stay.
func (d *document) setNumber(e *element, number uint64) {
	at := span{e.contentStart, e.contentEnd}
	if len(e.textSpans) == 1 &&
		!bytes.ContainsAny(d.text[e.textSpans[0].from:e.textSpans[0].to], "<&") {
		at = d.trimmed(e.textSpans[0])
	}
	d.replace(at, strconv.FormatUint(number, 10))
}

func (d *document) trimmed(s span) span {
	piece := d.text[s.from:s.to]
	from := s.from + len(piece) - len(bytes.TrimLeft(piece, " \t\r\n"))
	return span{from, from + len(bytes.TrimSpace(piece))}
}

// setAttr sets an attribute. The value must need no escaping.
func (d *document) setAttr(e *element, name, value string) {
	tag := d.text[e.start:e.contentStart]
	for _, m := range attribute.FindAllSubmatchIndex(tag, -1) {
		if string(tag[m[2]:m[3]]) == name {
			d.replace(span{e.start + m[4] + 1, e.start + m[5] - 1}, value)
			return
		}
	}
	at := e.start + len(bytes.TrimRight(tag, " \t\r\n/>"))
	d.replace(span{at, at}, " "+name+"="+d.quoted(value))
}

// quoted adds the kind of quotes that the root element's first attribute has.
func (d *document) quoted(value string) string {
	quote := `'`
	if m := attribute.FindSubmatch(d.text[d.root.start:d.root.contentStart]); m != nil {
		quote = string(m[2][:1])
	}
	return quote + value + quote
}

// insertBefore and insertAfter add a sibling with the same indentation.
func (d *document) insertBefore(e *element, n node) {
	d.replace(span{e.start, e.start}, d.render(n, d.lineStart(e))+d.lineStart(e))
}

func (d *document) insertAfter(e *element, n node) {
	d.replace(span{e.end, e.end}, d.lineStart(e)+d.render(n, d.lineStart(e)))
}

// appendChild adds an element as the last child.
func (d *document) appendChild(parent *element, n node) {
	if last := len(parent.children) - 1; last >= 0 {
		d.insertAfter(parent.children[last], n)
		return
	}
	outer := d.lineStart(parent)
	inner := outer
	if outer != "" {
		inner += d.indentUnit()
	}
	body := inner + d.render(n, inner) + outer
	if parent.contentStart < parent.end { // the element has an end tag
		at := parent.contentStart + len(
			bytes.TrimRight(d.text[parent.contentStart:parent.contentEnd], " \t\r\n"),
		)
		d.replace(span{at, parent.contentEnd}, body)
		return
	}
	at := parent.start + len(bytes.TrimRight(d.text[parent.start:parent.contentStart], " \t\r\n/>"))
	d.replace(span{at, parent.contentStart}, ">"+body+"</"+parent.name+">")
}

// lineStart returns the line break and the indentation before an element. It returns "" if the
// element does not begin a line.
func (d *document) lineStart(e *element) string {
	head := d.text[:e.start]
	line := head[len(bytes.TrimRight(head, " \t")):]
	switch {
	case bytes.HasSuffix(head[:len(head)-len(line)], []byte("\r\n")):
		return "\r\n" + string(line)
	case bytes.HasSuffix(head[:len(head)-len(line)], []byte("\n")),
		e == d.root && len(line) == e.start:
		return "\n" + string(line)
	}
	return ""
}

// indentUnit returns the indentation of the root's children, or two spaces.
func (d *document) indentUnit() string {
	if len(d.root.children) > 0 {
		step, ok := strings.CutPrefix(d.lineStart(d.root.children[0]), d.lineStart(d.root))
		if ok && step != "" {
			return step
		}
	}
	return "  "
}

// node is a new element.
type node struct {
	name     string
	attrs    []string // names and values, alternating
	text     string
	children []node
}

func numberNode(name string, value uint64, attrs ...string) node {
	return node{name: name, attrs: attrs, text: strconv.FormatUint(value, 10)}
}

// render writes a node. lineStart is the line break and indentation before it.
func (d *document) render(n node, lineStart string) string {
	var out strings.Builder
	out.WriteString("<" + n.name)
	for i := 0; i < len(n.attrs); i += 2 {
		out.WriteString(" " + n.attrs[i] + "=" + d.quoted(n.attrs[i+1]))
	}
	if n.text == "" && n.children == nil {
		return out.String() + "/>"
	}
	out.WriteString(">" + n.text)
	inner := lineStart
	if lineStart != "" {
		inner += d.indentUnit()
	}
	for _, c := range n.children {
		out.WriteString(inner + d.render(c, inner))
	}
	if n.children != nil {
		out.WriteString(lineStart)
	}
	return out.String() + "</" + n.name + ">"
}
