package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/mooring-vm/mooring/internal/plaintext"
)

// programDirs are the directories of the default PATH of services.
func programDirs() []string {
	return []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
}

var versionLine = regexp.MustCompile(`(?m)^(?:runc|crun) version (\S+)`)

// ociRuntime checks the programs that create containers.
func ociRuntime(ctx context.Context, s *survey) finding {
	var found []string
	old := false
	for _, name := range []string{"runc", "crun"} {
		program := s.lookPath(name)
		if program == "" {
			continue
		}
		v := s.ociVersion(ctx, program)
		found = append(found, strings.TrimSpace(name+" "+v))
		parsed, err := version.ParseGeneric(v)
		old = old ||
			name == "runc" && err == nil && !parsed.AtLeast(version.MustParseGeneric("1.2"))
	}
	text := strings.Join(found, ", ")
	switch {
	case text == "":
		return finding{
			Unknown,
			"neither runc nor crun in PATH",
			"containerd may use another program",
			"",
		}
	case old:
		return finding{
			Note, text,
			"works; pods with a user namespace (hostUsers: false) need runc 1.2 or crun",
			"upgrade runc to run such pods",
		}
	}
	return finding{OK, text, "sets the limits from its privileged parent process", ""}
}

// lookPath returns the path of an executable file, or "".
func (s *survey) lookPath(name string) string {
	for _, dir := range programDirs() {
		info, err := fs.Stat(s.Root, fsPath(dir+"/"+name))
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return dir + "/" + name
		}
	}
	return ""
}

func (s *survey) ociVersion(ctx context.Context, program string) string {
	if s.Version == nil {
		return ""
	}
	out, err := s.Version(ctx, program, 0)
	if err != nil {
		return fmt.Sprintf("(%s)", plaintext.OneLine(err.Error()))
	}
	if m := versionLine.FindStringSubmatch(out); m != nil {
		return m[1]
	}
	return ""
}
