package sysdump

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// contents reads an archive back.
func contents(t *testing.T, text []byte) map[string]string {
	t.Helper()
	uncompressed, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(uncompressed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		content, readErr := io.ReadAll(r)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}

// TestArchive bounds the content, and lists what does not fit.
func TestArchive(t *testing.T) {
	var out bytes.Buffer
	a := newArchive(&out, "dump", time.Unix(0, 0), 10)
	a.add("small", []byte("12345678"))
	a.add("large", []byte("123"))
	a.add("fits", []byte("12"))
	a.fail("absent", errors.New("forbidden\nfor you"))
	failed, err := a.close()
	if err != nil || len(failed) != 2 {
		t.Fatalf("%v, %v", failed, err)
	}
	files := contents(t, out.Bytes())
	want := "absent: forbidden; for you\nlarge: left out: 3 bytes do not fit into the archive\n"
	if len(files) != 3 || files["dump/small"] != "12345678" || files["dump/fits"] != "12" ||
		files["dump/errors.txt"] != want {
		t.Errorf("%q", files)
	}
}

func TestRedact(t *testing.T) {
	const token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln"
	key := "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"
	for text, want := range map[string]string{
		"token: " + token + " end":                "token: [removed] end",
		"Authorization: Bearer abcdefgh12345678":  "Authorization: [removed]",
		"a\n" + key + "\nb":                       "a\n[removed]\nb",
		"cut -----BEGIN PRIVATE KEY-----\nMIIE":   "cut [removed]",
		"token=abcdef.0123456789abcdef":           "token=[removed]",
		"image: registry.example.com/agent:1.2.3": "image: registry.example.com/agent:1.2.3",
		"name: mooring.dev/agent, 5Gi":            "name: mooring.dev/agent, 5Gi",
	} {
		if got := string(redact([]byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestFailedWrite reports a full disk once.
func TestFailedWrite(t *testing.T) {
	a := newArchive(full{}, "dump", time.Unix(0, 0), 1<<20)
	a.add("part", bytes.Repeat([]byte("x"), 1<<10))
	if _, err := a.close(); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("error %v", err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }
