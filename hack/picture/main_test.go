package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const page = "text\n\n```console\n$ a top\nNAME  <b> & c\nvm    1\n```\n\nmore\n"

func TestConsoleBlock(t *testing.T) {
	lines, err := consoleBlock(page, "a top")
	if diff := cmp.Diff([]string{"$ a top", "NAME  <b> & c", "vm    1"}, lines); err != nil ||
		diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := consoleBlock(page, "a ps"); err == nil {
		t.Error("a missing block was found")
	}
}

// TestDraw reads the text of the picture back.
func TestDraw(t *testing.T) {
	lines, err := consoleBlock(page, "a top")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lines, texts(t, draw("a top", lines))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCommittedPicture wants docs/images/top.svg to have the document's output.
func TestCommittedPicture(t *testing.T) {
	document, err := os.ReadFile("../../docs/how-to/laptop.md")
	if err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile("../../docs/images/top.svg")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := consoleBlock(string(document), "kubectl mooring top -A")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lines, texts(t, string(picture))); diff != "" {
		t.Errorf("run `go generate ./hack/picture` (-document +picture):\n%s", diff)
	}
}

// texts returns the texts of an SVG without its title.
func texts(t *testing.T, picture string) (all []string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(picture))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "text" {
			var text string
			if err := decoder.DecodeElement(&text, &start); err != nil {
				t.Fatal(err)
			}
			all = append(all, text)
		}
	}
}
