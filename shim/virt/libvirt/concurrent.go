//go:build cgo && libvirt_dlopen

package libvirt

import "libvirt.org/go/libvirt"

// safeVersion is the first libvirt whose connections several threads may use: 10.3.0.
const safeVersion = 10_003_000

// concurrentCalls returns how many of the wanted calls may run in one connection at a time.
//
// In older client libraries a second thread in a connection, even a keep-alive message, can leave a
// pointer to the stack of the first. The process crashes when libvirt follows it later
// (CVE-2024-4418, not mended in Debian 12). With such a library calls run one at a time.
func concurrentCalls(wanted int) int {
	version, err := libvirt.GetVersion()
	if err != nil || version < safeVersion {
		return 1
	}
	return wanted
}
