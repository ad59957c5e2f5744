package channel

import "strings"

// ReadyPrefix begins the console line of a node that can be reached; its host
// key follows.
const ReadyPrefix = "NODE-READY "

// KeyParameter is the kernel parameter that carries the authorized key, in
// base64 as in an authorized_keys file.
const KeyParameter = "mooring.key="

// ParseReady returns the host key that a console line tells, if it does.
func ParseReady(line string) (hostKey string, ok bool) {
	_, key, ok := strings.Cut(line, ReadyPrefix)
	return strings.TrimSpace(key), ok
}
