// Package headroom prepares a domain XML for growth: a running domain gets no more
// vCPUs and no more memory than the maximum that it was started with.
//
// [Prepare] is a pure function, and edits the text: every byte that it has no reason
// to change stays. It is for libvirt 9.0 and newer with QEMU on x86_64. What it needs
// to know of the host is given to it; [ReadHost] finds it out.
package headroom
