package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// checksumsFile lists all other files, for `sha256sum --check`.
const checksumsFile = "SHA256SUMS"

// writeChecksums writes the checksums of all files in a directory.
func writeChecksums(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var list bytes.Buffer
	for _, f := range files { // by name
		sum, err := checksum(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%s  %s\n", sum, f.Name())
	}
	return os.WriteFile(filepath.Join(dir, checksumsFile), list.Bytes(), 0o644)
}

// checksum returns the SHA-256 of a file in hexadecimal digits.
func checksum(path string) (string, error) {
	h := sha256.New()
	if err := copyFile(h, path); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
