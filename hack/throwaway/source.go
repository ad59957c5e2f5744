package throwaway

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const modulePath = "github.com/mooring-vm/mooring"

// SourceRoot is the checkout of Mooring around the working directory.
func SourceRoot() (string, error) { return sourceRoot("") }

// sourceRoot is the given checkout, or else the checkout around the working directory. The node's
// own programs are built from it.
func sourceRoot(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module "+modulePath+"\n") {
			return dir, nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no checkout of %s around the working directory", modulePath)
		}
		dir = parent
	}
}
