package channel

import "strings"

// ReadyPrefix begins the console line of a reachable node. The node's host key follows.
const ReadyPrefix = "NODE-READY "

// KeyParameter is the kernel parameter with the authorized key in base64, as in an authorized_keys
// file.
const KeyParameter = "mooring.key="

// ParseReady returns the host key in a console line. ok is false for other lines.
func ParseReady(line string) (hostKey string, ok bool) {
	_, key, ok := strings.Cut(line, ReadyPrefix)
	return strings.TrimSpace(key), ok
}
