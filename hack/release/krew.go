package main

import (
	"context"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// downloads is where a release's files can be downloaded, followed by /VERSION/FILE.
const downloads = "https://github.com/mooring-vm/mooring/releases/download"

// krewPlugin is the manifest of a kubectl plugin:
// https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
type krewPlugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       krewSpec          `json:"spec"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"` // at most 50 characters
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector krewSelector `json:"selector"`
	URI      string       `json:"uri"`
	SHA256   string       `json:"sha256"`
	Bin      string       `json:"bin"`
}

type krewSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

// writeKrewManifest writes the manifest for `kubectl krew install --manifest=mooring.yaml`, with
// the checksums of the archives.
func (r *release) writeKrewManifest(context.Context) error {
	plugin := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin",
		Metadata: map[string]string{"name": cli},
		Spec: krewSpec{
			Version: r.version, Homepage: "https://github.com/mooring-vm/mooring",
			ShortDescription: "Memory locks, lifecycle and quotas of VMs",
			Description: "Shows the launchers of VMs, their memory locks and sizes, the state of " +
				"each node's agent, and the quotas of namespaces with live migrations.",
		},
	}
	for _, p := range cliPlatforms() {
		sum, err := checksum(filepath.Join(r.out, r.archiveName(p)))
		if err != nil {
			return err
		}
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, krewPlatform{
			Selector: krewSelector{MatchLabels: map[string]string{"os": p.os, "arch": p.arch}},
			URI:      downloads + "/" + r.version + "/" + r.archiveName(p),
			SHA256:   sum, Bin: cli + p.suffix(),
		})
	}
	text, err := yaml.Marshal(plugin)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, cli+".yaml"), text, 0o644)
}
