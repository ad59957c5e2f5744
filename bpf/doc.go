// Package bpf knows, from inside the kernel, which processes belong to which
// registered cgroup, and of every start of an emulator on the node.
//
// A [Tracker] loads programs on the tracepoints of fork, exec, exit and cgroup
// moves. They keep a map of processes, which is the truth ([View.Snapshot]), and
// write events to a ring, which are hints ([Tracker.Events]): when the ring is
// full the newest events are dropped and counted, the map stays right. With
// [Options.Dir] all of it is pinned, works on while no process has it open, and
// is taken over by the next [Open].
//
// A process belongs to a group, which is the id of a registered cgroup:
//
//   - if it is in that cgroup or below it, the nearest one counts;
//   - else if it was born to a process of the group, however often it forked
//     since, and whatever cgroup it has moved to;
//   - or if [Tracker.Bind] said so.
//
// There is room for [Options.MaxProcesses], and no group has all of it. While some
// had none, [View.Complete] says so, and what is not in the map may yet be there.
//
// Its identity is [Process]: the number, in the pid namespace of whoever opened
// the tracker, and the start time. Processes that cannot be seen in that
// namespace are not tracked.
//
// It takes Linux 5.15 or newer with BTF, CAP_BPF and CAP_PERFMON, and for pins a
// bpf file system. Nothing here knows what a pod is.
package bpf

//go:generate ./generate
