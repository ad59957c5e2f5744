// Command picture draws the output of a command in a document as a terminal. A test writes the
// output into the document, so the picture shows the real one.
//
//	go run ./hack/picture PAGE COMMAND FILE.svg
package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"strings"
)

//go:generate go run . ../../docs/how-to/laptop.md "kubectl mooring top -A" ../../docs/images/top.svg

// Sizes in pixels. The font's characters are 0.6 of its size wide.
const (
	fontSize   = 14
	charWidth  = 8.4
	lineHeight = 20
	margin     = 20
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: picture PAGE COMMAND FILE.svg")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run(page, command, file string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	lines, err := consoleBlock(string(text), command)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(file, []byte(draw(command, lines)), 0o644)
}

// consoleBlock returns the command line and the output of a block of the document.
func consoleBlock(page, command string) ([]string, error) {
	prompt := "$ " + command
	_, block, found := strings.Cut(page, "```console\n"+prompt+"\n")
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		return nil, fmt.Errorf("no console block %q", prompt)
	}
	return append([]string{prompt}, strings.Split(strings.TrimSpace(block), "\n")...), nil
}

// draw returns the lines as an SVG. The background is opaque, for light and dark pages.
func draw(title string, lines []string) string {
	columns := 0
	for _, line := range lines {
		columns = max(columns, len(line))
	}
	width, height := int(float64(columns)*charWidth)+2*margin, len(lines)*lineHeight+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" `+
		`height="%[2]d" font-family="'DejaVu Sans Mono', Menlo, Consolas, monospace" `+
		`font-size="%[3]d" role="img">`+"\n  <title>%[4]s</title>\n", width, height, fontSize,
		escape(title))
	fmt.Fprintf(&b, `  <rect width="%d" height="%d" rx="8" fill="#0f172a"/>`+"\n", width, height)
	for i, line := range lines {
		colour := "#e2e8f0"
		switch i {
		case 0:
			colour = "#86efac"
		case 1:
			colour = "#93c5fd"
		}
		// textLength keeps the columns aligned with every font.
		fmt.Fprintf(&b, `  <text x="%d" y="%d" fill="%s" xml:space="preserve" textLength="%.1f">`+
			"%s</text>\n", margin, margin+fontSize+i*lineHeight, colour,
			float64(len(line))*charWidth, escape(line))
	}
	return b.String() + "</svg>\n"
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder never fails
	return b.String()
}
