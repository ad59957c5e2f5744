// Package containerd contains Mooring's setting of containerd.
package containerd

import _ "embed" // for DropIn

// DropIn is the content of mooring.toml, a file for a directory that containerd's configuration
// imports.
//
//go:embed mooring.toml
var DropIn string
