// Package helm contains Mooring's chart. `go generate` renders the manifests of deploy/kubernetes
// from it, except the CRDs.
package helm

//go:generate ./render
