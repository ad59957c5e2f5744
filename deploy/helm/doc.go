// Package helm holds the chart of Mooring, and tests it with Helm itself. What is in
// deploy/kubernetes besides the CRDs is rendered from it.
package helm

//go:generate ./render
