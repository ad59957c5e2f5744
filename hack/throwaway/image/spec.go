// Package image builds the disk of the throw-away node: a Debian root file system, its kernel, a
// containerd, and the command channel.
package image

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// OuterSuite is the Debian release of the QEMU that runs the node. With QEMU 7.2 of Debian 12, up
// to one in four boots under TCG panics. With 10.0 and later none of 64 boots panicked.
const OuterSuite = "trixie"

// DistributionContainerd in Spec.Containerd means the package of the suite.
const DistributionContainerd = "distribution"

// Spec describes a node.
type Spec struct {
	// Suite is the Debian release of the root file system and kernel.
	Suite string
	// Containerd is DistributionContainerd or the name of a directory below
	// hack/throwaway/containerd. The go.mod there pins the version. One directory pins a CRI-O
	// instead.
	Containerd string
}

// DefaultSpec is the node of the tests.
func DefaultSpec() Spec { return Spec{Suite: OuterSuite, Containerd: "2.4.2"} }

func suites() []string { return []string{"bookworm", "trixie", "forky", "sid"} }

// Validate returns an error with the field, its value and the allowed values.
func (s Spec) Validate() error {
	if !slices.Contains(suites(), s.Suite) {
		return fmt.Errorf("suite %q: want one of %s", s.Suite, strings.Join(suites(), ", "))
	}
	if s.Containerd != DistributionContainerd && !slices.Contains(containerdBuilds(),
		s.Containerd) {
		return fmt.Errorf("containerd %q: want %q or one of %s", s.Containerd,
			DistributionContainerd, strings.Join(containerdBuilds(), ", "))
	}
	return nil
}

func (s Spec) String() string { return s.Suite + ", containerd " + s.Containerd }

// packages are the packages of the node's root file system. The last group is for the tests.
func (s Spec) packages() []string {
	p := []string{
		"systemd", "systemd-sysv", "dbus", "kmod", "linux-image-cloud-amd64",
		"runc", "crun", "containernetworking-plugins", "iptables", "nftables", "ca-certificates",
		"libvirt-daemon-system", "libvirt-daemon-driver-qemu", "libvirt-clients",
		"qemu-system-x86", "seabios",
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

// SpecFromEnv is DefaultSpec with changes from $MOORING_NODE_SUITE and $MOORING_NODE_CONTAINERD.
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
