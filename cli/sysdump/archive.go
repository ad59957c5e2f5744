package sysdump

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// errorsFile lists the parts that the archive lacks.
const errorsFile = "errors.txt"

// archive is a tar.gz of bounded size. Its methods can be called concurrently.
type archive struct {
	dir  string // prefix of all names
	time time.Time
	left int64 // bytes of content

	mu     sync.Mutex
	gzip   *gzip.Writer
	tar    *tar.Writer
	failed []failure
	err    error // of the first write that failed
}

// failure is a part that the archive lacks.
type failure struct{ part, reason string }

func newArchive(w io.Writer, dir string, now time.Time, limit int64) *archive {
	compressed := gzip.NewWriter(w)
	return &archive{dir: dir, time: now, left: limit, gzip: compressed,
		tar: tar.NewWriter(compressed)}
}

// add writes a part without its secrets. It omits a part above the bound.
func (a *archive) add(name string, text []byte) {
	text = redact(text)
	a.mu.Lock()
	defer a.mu.Unlock()
	if int64(len(text)) > a.left {
		a.failed = append(a.failed, failure{name,
			fmt.Sprintf("left out: %d bytes do not fit into the archive", len(text))})
		return
	}
	a.left -= int64(len(text))
	a.write(name, text)
}

// fail records the reason for the absence of a part.
func (a *archive) fail(part string, reason error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = append(a.failed, failure{part, reason.Error()})
}

func (a *archive) write(name string, text []byte) {
	if a.err != nil {
		return
	}
	if a.err = a.tar.WriteHeader(&tar.Header{Name: a.dir + "/" + name, Mode: 0o600,
		Size: int64(len(text)), ModTime: a.time}); a.err == nil {
		_, a.err = a.tar.Write(text)
	}
}

// close writes the list of failures, which has no bound, and ends the archive.
func (a *archive) close() ([]failure, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.SortFunc(a.failed, func(x, y failure) int { return cmp.Compare(x.part, y.part) })
	var list strings.Builder
	for _, f := range a.failed {
		fmt.Fprintf(&list, "%s: %s\n", f.part, strings.ReplaceAll(f.reason, "\n", "; "))
	}
	a.write(errorsFile, redact([]byte(list.String())))
	return a.failed, errors.Join(a.err, a.tar.Close(), a.gzip.Close())
}
