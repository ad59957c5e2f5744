// Package bpf tracks, inside the kernel, which processes belong to which registered cgroup, and
// every start of an emulator on the node.
//
// A [Tracker] attaches programs to the tracepoints of fork, exec, exit and cgroup moves. The
// programs keep a map of processes ([View.Snapshot]), which is the truth. They also write events to
// a ring ([Tracker.Events]), which are hints: when the ring is full, the kernel drops and counts
// new events, and the map stays right. With [Options.Dir], maps and programs are pinned. They keep
// working while no process has them open, and the next [Open] takes them over.
//
// A process belongs to a group. The group's id is the id of a registered cgroup. The first matching
// rule decides:
//
//   - [Tracker.Bind] put the process into a group;
//   - the process is in a registered cgroup or below one, and the nearest one counts;
//   - a parent belonged to the group at the fork. The process keeps this group in any later cgroup.
//
// The map has room for [Options.MaxProcesses], and no group can use all of it. When a process found
// no room, [View.Complete] returns false: a process missing from the map may still exist.
//
// [Process] identifies a process by its number, in the pid namespace of the program that opened the
// tracker, and its start time. The tracker ignores processes that are invisible in this namespace.
//
// The tracker needs Linux 5.15 or newer with BTF, CAP_BPF and CAP_PERFMON, and for pins a bpf file
// system. This package does not know pods.
package bpf

//go:generate ./generate
