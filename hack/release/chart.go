package main

import (
	"context"
	"strings"
)

// packageChart packs the chart with the version. Its images have the chart's appVersion as tag.
func (r *release) packageChart(ctx context.Context) error {
	return tool(ctx, "helm", "package", "--version="+strings.TrimPrefix(r.version, "v"),
		"--app-version="+r.version, "--destination="+r.out, "deploy/helm/mooring")
}
