package main

import (
	"context"
	"path/filepath"
)

// writeSBOMs writes the modules of each program in CycloneDX's JSON. They come from the built
// programs and not from go.mod, so they name the linked modules only.
func (r *release) writeSBOMs(ctx context.Context) error {
	for _, p := range nodePlatforms() {
		names := staticPrograms()
		if hasShim(p) {
			names = append(names, shim)
		}
		for _, name := range names {
			file := filepath.Join(r.out, name+"_"+r.version+"_"+p.String()+".cdx.json")
			if err := tool(ctx, "cyclonedx-gomod", "bin", "-json", "-std", "-noserial", "-notimestamp",
				"-version="+r.version, "-output="+file, r.program(p, name)); err != nil {
				return err
			}
		}
	}
	return nil
}
