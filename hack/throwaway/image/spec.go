// Package image builds the disk of the throw-away node: a Debian root file
// system, its kernel, a containerd, and what the node needs to be reached.
package image

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// OuterSuite is the Debian release whose QEMU runs the node. QEMU 7.2 of
// Debian 12 makes guests panic under TCG in up to one of four boots; 10.0 and
// later did not in 64.
const OuterSuite = "trixie"

// DistributionContainerd as a Spec's Containerd means the suite's own package.
const DistributionContainerd = "distribution"

// Spec says which node is wanted.
type Spec struct {
	// Suite is the Debian release of the root file system and kernel.
	Suite string
	// Containerd is the name of a folder under hack/throwaway/containerd whose
	// go.mod pins what is built, or DistributionContainerd. One of the folders
	// holds a CRI-O, which then is in containerd's place.
	Containerd string
}

// DefaultSpec is the node that the tests run on when nothing else is asked for.
func DefaultSpec() Spec { return Spec{Suite: OuterSuite, Containerd: "2.4.2"} }

func suites() []string { return []string{"bookworm", "trixie", "forky", "sid"} }

// Validate returns an error that names the field, its value and what is allowed.
func (s Spec) Validate() error {
	if !slices.Contains(suites(), s.Suite) {
		return fmt.Errorf("suite %q: want one of %s", s.Suite, strings.Join(suites(), ", "))
	}
	if s.Containerd != DistributionContainerd && !slices.Contains(containerdBuilds(), s.Containerd) {
		return fmt.Errorf("containerd %q: want %q or one of %s", s.Containerd, DistributionContainerd, strings.Join(containerdBuilds(), ", "))
	}
	return nil
}

func (s Spec) String() string { return s.Suite + ", containerd " + s.Containerd }

// packages are those of the node's root file system. The last group is there
// so that tests can look at the node.
func (s Spec) packages() []string {
	p := []string{
		"systemd", "systemd-sysv", "dbus", "kmod", "linux-image-cloud-amd64",
		"runc", "crun", "containernetworking-plugins", "iptables", "nftables", "ca-certificates",
		"libvirt-daemon-system", "libvirt-daemon-driver-qemu", "libvirt-clients", "qemu-system-x86", "seabios",
		"busybox-static", "iproute2", "util-linux", "procps", "mount",
	}
	switch {
	case s.Containerd == DistributionContainerd:
		p = append(p, "containerd")
	case s.isCRIO():
		p = append(p, "conmon", "skopeo")
	}
	return p
}

// SpecFromEnv is DefaultSpec changed by $MOORING_NODE_SUITE and
// $MOORING_NODE_CONTAINERD.
func SpecFromEnv() Spec {
	spec := DefaultSpec()
	if suite := os.Getenv("MOORING_NODE_SUITE"); suite != "" {
		spec.Suite = suite
	}
	if containerd := os.Getenv("MOORING_NODE_CONTAINERD"); containerd != "" {
		spec.Containerd = containerd
	}
	return spec
}
