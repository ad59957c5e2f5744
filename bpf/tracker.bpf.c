//go:build ignore
// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Tracks the processes of registered cgroups, and every start of an emulator.
 * Handlers may run twice for one event, while an upgrade has both generations of
 * programs attached: all of them are idempotent.
 */
#include "kernel.h"
#include <bpf_helpers.h>
#include "tracker.h"
#include "read.h"
#include "capacity.h"
#include "state.h"

char __license[] SEC("license") = "Dual BSD/GPL";

/* A child gets the group of its parent, or of the cgroup that it is born into. */
static __noinline int born(__u64 child_address, __u64 parent_address)
{
	struct task_struct *child = (void *)child_address, *parent = (void *)parent_address;
	__u32 tgid = READ(child, tgid), parent_tgid = READ(parent, tgid);
	struct process *of = find(parent_tgid, leader_of(parent));
	struct process new = {};

	if (tgid == parent_tgid)
		return 0; /* a thread */
	if (of)
		copy_entry(&new, of); /* the parent runs this program */
	new.watched = 0;
	new.revision = 0;
	if (!new.bound && !(new.group && READ(child, cgroups) == READ(parent, cgroups))) {
		__u64 group = group_above((__u64)cgroup_of(child));

		if (group)
			new.group = group;
	}
	if ((!new.group && !new.emulator) || !describe(&new, child, child))
		return 0;
	if (!of)
		set_file(&new, executed_by(child));
	add_and_report(tgid, child, &new, KIND_FORK);
	return 0;
}

INLINE struct css_set *cgroups_of(struct task_struct *task, bool typed)
{
	return typed ? task->cgroups : READ(task, cgroups);
}

/* With an untracked parent, only a child in another cgroup (CLONE_INTO_CGROUP) matters. */
INLINE int on_fork(struct task_struct *parent, struct task_struct *child, bool typed)
{
	if (!may_be_tracked(bpf_get_current_pid_tgid() >> 32) &&
	    cgroups_of(parent, typed) == cgroups_of(child, typed))
		return 0;
	return born((__u64)child, (__u64)parent);
}

/* Replaces the executable of a tracked process and unlocks its entry. */
INLINE int re_executed(__u32 tgid, struct process *process, struct file *file)
{
	bool was_emulator = process->emulator;
	struct process now;

	set_file(process, file);
	now = *process;
	unlock(tgid);
	write_event(KIND_EXEC, &now, was_emulator, was_emulator || now.emulator);
	if (!now.group && !now.emulator && !now.watched)
		forget(tgid, now.start, NULL);
	return 0;
}

static __noinline int executed(__u64 file_address)
{
	struct task_struct *task = current_task();
	struct file *file = (void *)file_address;
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct process *process = begin_change(tgid, task); /* exec has made this thread the leader */
	struct process new = {};

	if (process)
		return re_executed(tgid, process, file);
	set_file(&new, file);
	new.group = group_above((__u64)cgroup_of(task));
	if ((!new.group && !new.emulator) || !describe(&new, task, task))
		return 0;
	add_and_report(tgid, task, &new, KIND_EXEC);
	return 0;
}

INLINE bool may_be_emulator(const struct settings *settings, struct linux_binprm *bprm, bool typed)
{
	__u32 length;

	if (typed) {
		length = bprm->file->f_path.dentry->d_name.len;
	} else {
		struct file *file = READ(bprm, file);
		struct dentry *dentry = READ(file, f_path.dentry);

		length = READ(dentry, d_name.len);
	}
	return length < NAME_SIZE && settings->name_lengths >> length & 1;
}

/* One of 64 bits for a cgroup id, so that one word can hold a set of ids. */
INLINE __u64 fresh_bit(__u64 id)
{
	return 1ULL << (id * 0x9e3779b97f4a7c15ULL >> 58);
}

/* Whether this task is in a cgroup registered since the last scan. */
INLINE bool in_fresh_group(__u64 unscanned)
{
	int level;

	if (!unscanned)
		return false;
	for (level = 0; level < MAX_DEPTH; level++) {
		__u64 id = bpf_get_current_ancestor_cgroup_id(level);

		if (!id)
			return false;
		if (fresh_bit(id) & unscanned && bpf_map_lookup_elem(&groups, &id))
			return true;
	}
	return false;
}

/*
 * Finds processes that were in a cgroup before its registration, until a scan has
 * found all. Example: runc's init executes the program of the container after the
 * registration of the launcher.
 */
INLINE int on_exec(struct linux_binprm *bprm, bool typed)
{
	const struct settings *settings = get_settings();

	if (!settings)
		return 0;
	if (!may_be_tracked(bpf_get_current_pid_tgid() >> 32) && !may_be_emulator(settings, bprm, typed) &&
	    !in_fresh_group(settings->unscanned))
		return 0;
	return executed((__u64)READ(bprm, file));
}

INLINE int on_exit(void)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;

	if (may_be_tracked(tgid))
		end(tgid, current_task());
	return 0;
}

/* A tracked process keeps its group when it leaves the cgroup. The caller holds the lock. */
INLINE int moved(struct process *process, __u64 cgroup, __u64 group)
{
	if (!group || process->bound)
		group = process->group;
	if (process->cgroup == cgroup && process->group == group)
		return 0;
	process->cgroup = cgroup;
	process->group = group;
	return write_event(KIND_MOVE, process, 0, process->emulator);
}

static __noinline int attached(__u64 cgroup_address, __u64 task_address, __u32 whole)
{
	struct cgroup *to = (void *)cgroup_address;
	struct task_struct *task = (void *)task_address, *leader = leader_of(task);
	__u32 tgid = READ(task, tgid);
	struct process *process = begin_change(tgid, leader);
	__u64 group = group_above(cgroup_address);
	struct process new = { .group = group };

	if (process) { /* the move of a single thread does not move its process */
		moved(process, whole || task == leader ? cgroup_id(to) : process->cgroup, group);
		end_change(tgid, task);
		return 0;
	}
	if (!group || !describe(&new, leader, task))
		return 0;
	new.cgroup = cgroup_id(to);
	set_file(&new, executed_by(task));
	if (!add_and_report(tgid, leader, &new, KIND_MOVE))
		end(tgid, task);
	return 0;
}

INLINE int on_attach(struct cgroup *to, struct task_struct *task, bool whole)
{
	struct cgroup_root *root = READ(to, root);

	if (READ(root, hierarchy_id)) /* cgroup v1, whose ids overlap with those of v2 */
		return 0;
	return attached((__u64)to, (__u64)task, whole);
}

/*
 * Each handler has a raw_tp variant for kernels without tp_btf. Typed arguments
 * need no helper call, which keeps the path of untracked processes cheap.
 */
#define HANDLER(name, tracepoint, call)                                                   \
	SEC("tp_btf/" tracepoint) int name(__u64 *ctx) { bool typed = true; return call; } \
	SEC("raw_tp/" tracepoint) int name##_raw(__u64 *ctx) { bool typed = false; return call; }

HANDLER(handle_fork, "sched_process_fork", on_fork((void *)ctx[0], (void *)ctx[1], typed))
HANDLER(handle_exec, "sched_process_exec", on_exec((void *)ctx[2], typed))
HANDLER(handle_exit, "sched_process_exit", ((void)typed, on_exit()))
HANDLER(handle_move, "cgroup_attach_task", ((void)typed, on_attach((void *)ctx[0], (void *)ctx[2], ctx[3] & 1)))

/* Changes the map of processes for user space. */
SEC("syscall") int edit(struct change *change)
{
	struct process process = change->process;
	__u32 tgid = change->tgid;

	if (!change->forget)
		return enter(tgid, &process);
	return forget(tgid, process.start, NULL) ? 0 : -ESRCH;
}

#include "iterators.h"
