// Package headroom prepares a domain XML for growth. A running domain cannot get more vCPUs or
// memory than the maximum in its XML.
//
// [Prepare] is a pure function. It edits the text, so every unrelated byte stays as it is. It
// supports libvirt 9.0 and newer with QEMU on x86_64. The caller provides the facts about the host;
// [ReadHost] reads them.
package headroom
