// Package hook is a KubeVirt hook sidecar that gives the VM of its pod headroom to grow
// ([headroom]). virt-launcher sends it the domain XML before it defines the domain, and uses the
// XML from the answer.
//
// The sidecar speaks KubeVirt's hook protocol: gRPC on a socket in a directory that KubeVirt
// mounts. It supports the versions v1alpha1, v1alpha2 and v1alpha3, which share their messages.
//
// [headroom]: https://pkg.go.dev/github.com/mooring-vm/mooring/shim/headroom
package hook

//go:generate go -C ../../hack/protogen run . ../../shim/hook/internal info/info.proto v1alpha3/callbacks.proto
