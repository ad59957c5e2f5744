package throwaway

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const modulePath = "github.com/mooring-vm/mooring"

// sourceRoot is the checkout that was asked for, or else the one that the working
// directory is in: the node's own programs are built from it.
func sourceRoot(asked string) (string, error) {
	if asked != "" {
		return asked, nil
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
