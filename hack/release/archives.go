package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name, path string
	mode       os.FileMode
}

// archiveName returns the name of the CLI's archive for a platform.
func (r *release) archiveName(p platform) string {
	name := cli + "_" + r.version + "_" + p.String()
	if p.os == "windows" {
		return name + ".zip"
	}
	return name + ".tar.gz"
}

// writeArchives packs the CLI with its licence for each platform.
func (r *release) writeArchives(context.Context) error {
	for _, p := range cliPlatforms() {
		entries := []entry{{cli + p.suffix(), r.program(p, cli), 0o755}, {"LICENSE", "LICENSE", 0o644}}
		write := writeTarGz
		if p.os == "windows" {
			write = writeZip
		}
		if err := write(filepath.Join(r.out, r.archiveName(p)), r.time, entries); err != nil {
			return err
		}
	}
	return nil
}

func writeTarGz(path string, at time.Time, entries []entry) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	compressed := gzip.NewWriter(file)
	archive := tar.NewWriter(compressed)
	for _, e := range entries {
		content, err := os.ReadFile(e.path)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: e.name, Mode: int64(e.mode), Size: int64(len(content)),
			ModTime: at, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

func writeZip(path string, at time.Time, entries []entry) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	archive := zip.NewWriter(file)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
		header.SetMode(e.mode)
		w, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if err := copyFile(w, e.path); err != nil {
			return err
		}
	}
	return archive.Close()
}

func copyFile(w io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(w, file)
	return err
}
