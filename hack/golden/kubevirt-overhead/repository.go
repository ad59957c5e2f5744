package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// repository is the directory of a git repository.
type repository string

func (r repository) git(args ...string) ([]byte, error) {
	out, err := exec.Command("git", append([]string{"-C", string(r)}, args...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

var releaseTag = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

// releases returns the tags of all releases since 0.54, and main.
func (r repository) releases() ([]string, error) {
	out, err := r.git("tag", "--sort=version:refname")
	if err != nil {
		return nil, err
	}
	tags := slices.DeleteFunc(strings.Fields(string(out)),
		func(tag string) bool { return !releaseTag.MatchString(tag) })
	first := slices.Index(tags, "v0.54.0")
	if first < 0 {
		return nil, fmt.Errorf("%s has no tag v0.54.0", r)
	}
	return append(tags[first:], "main"), nil
}

var requirement = regexp.MustCompile(`(?m)^(?:require )?\s*([^\s/]+\.[^\s/]+/\S+ v\S+)`)

// modules returns the modules required by KubeVirt's API at a tag. It returns none for an empty
// tag.
func (r repository) modules(tag string) ([]string, error) {
	if tag == "" {
		return nil, nil
	}
	text, err := r.git("show", tag+":"+api+"/go.mod")
	if err != nil {
		return nil, err
	}
	var all []string
	for _, m := range requirement.FindAllSubmatch(text, -1) {
		all = append(all, string(m[1]))
	}
	return all, nil
}

// extract writes a directory of tag's tree into dir.
func (r repository) extract(tag, folder, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file := filepath.Join(dir, "tree.tar")
	if _, err := r.git("archive", "--output="+file, tag, "--", folder); err != nil {
		return err
	}
	defer os.Remove(file)
	if out, err := exec.Command("tar", "-xf", file, "-C", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, out)
	}
	return nil
}
