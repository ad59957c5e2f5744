package nodeconfig

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"k8s.io/apimachinery/pkg/util/version"
)

// minVersion is the first containerd with a validator.
const minVersion = "2.2"

// Runner runs a program of the node and returns its standard output. The error has the output for
// errors.
type Runner func(ctx context.Context, program string, args ...string) (string, error)

// commandError adds the command line and the last line of the output for errors. containerd logs
// the same error before.
func commandError(program string, args []string, err error, errOut string) error {
	err = fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	lines := strings.Split(strings.TrimSpace(errOut), "\n")
	if last := lines[len(lines)-1]; last != "" {
		err = fmt.Errorf("%w: %s", err, last)
	}
	return err
}

// runtime is the containerd of the node.
type runtime struct {
	run     Runner
	program string
}

// checkVersion refuses a containerd without a validator.
func (r runtime) checkVersion(ctx context.Context) error {
	out, err := r.run(ctx, r.program, "--version")
	if err != nil {
		return fmt.Errorf("read containerd's version: %w", err)
	}
	words := strings.Fields(out) // containerd MODULE VERSION REVISION
	if len(words) < 3 {
		return fmt.Errorf("%s --version printed %q: want a version of containerd", r.program, out)
	}
	v, err := version.ParseGeneric(words[2])
	if err != nil {
		return fmt.Errorf("%s --version printed %q: %w", r.program, out, err)
	}
	if !v.AtLeast(version.MustParseGeneric(minVersion)) {
		return fmt.Errorf("containerd %s has no validator for required plugins: want %s or newer; "+
			"docs/how-to/containerd.md says what works without", words[2], minVersion)
	}
	return nil
}

// nriTable is the part of containerd's configuration about NRI.
type nriTable struct {
	Disable   bool `toml:"disable"`
	Validator struct {
		Enable bool `toml:"enable"`
	} `toml:"default_validator"`
}

// effective returns containerd's configuration about NRI, with all imported files.
func (r runtime) effective(ctx context.Context, config string) (nriTable, error) {
	out, err := r.run(ctx, r.program, "--config", config, "config", "dump")
	if err != nil {
		return nriTable{}, fmt.Errorf("containerd refuses its configuration %s: %w", config, err)
	}
	var all struct {
		Plugins struct {
			NRI nriTable `toml:"io.containerd.nri.v1.nri"`
		} `toml:"plugins"`
	}
	if err := toml.Unmarshal([]byte(out), &all); err != nil {
		return nriTable{}, fmt.Errorf("read the output of containerd config dump: %w", err)
	}
	return all.Plugins.NRI, nil
}

// errDisabled reports NRI switched off by the node's owner. A drop-in must not overrule that.
var errDisabled = errors.New("NRI is off: the table [plugins.'io.containerd.nri.v1.nri'] has " +
	"disable = true: want disable = false, or no such line")

// imports returns the patterns of a configuration's imports.
func imports(config string) ([]string, error) {
	var c struct {
		Imports []string `toml:"imports"`
	}
	err := toml.Unmarshal([]byte(config), &c)
	return c.Imports, err
}

// imported reports whether a pattern of the configuration matches the file. Relative patterns start
// at the configuration's directory.
func imported(patterns []string, config, file string) bool {
	for _, pattern := range patterns {
		if !path.IsAbs(pattern) {
			pattern = path.Join(path.Dir(config), pattern)
		}
		if matches, err := path.Match(pattern, file); matches && err == nil {
			return true
		}
	}
	return false
}
