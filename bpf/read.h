/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reads of kernel structs. All go through bpf_probe_read_kernel, so the same
 * bodies serve tp_btf, raw_tp and iterators.
 */
#pragma once

#define INLINE static __always_inline

#define READ(from, member)                                                         \
	({                                                                         \
		typeof((from)->member) value_ = 0;                                 \
		bpf_probe_read_kernel(&value_, sizeof(value_),                     \
				      __builtin_preserve_access_index(&(from)->member)); \
		value_;                                                            \
	})

#define TYPE_SIZE(type) __builtin_preserve_type_info(*(typeof(type) *)0, 1 /* BPF_TYPE_SIZE */)

INLINE struct task_struct *current_task(void)
{
	return (struct task_struct *)bpf_get_current_task();
}

INLINE struct task_struct *leader_of(struct task_struct *task)
{
	return READ(task, group_leader);
}

INLINE bool alive(struct task_struct *task)
{
	struct signal_struct *signal = READ(task, signal);

	return READ(signal, live.counter) > 0;
}

/* The status of a process. The exit code of its last thread has no meaning. */
INLINE __u32 exit_status(struct task_struct *task)
{
	struct signal_struct *signal = READ(task, signal);
	struct task_struct *leader = leader_of(task);

	if (READ(signal, flags) & SIGNAL_GROUP_EXIT)
		return READ(signal, group_exit_code);
	return READ(leader, exit_code);
}

INLINE struct upid *upid_at(struct pid *pid, __u32 level)
{
	void *first = __builtin_preserve_access_index(&pid->numbers[0]);

	return first + level * TYPE_SIZE(struct upid);
}

INLINE __u32 namespace_inum(struct upid *upid)
{
	struct pid_namespace *ns = READ(upid, ns);

	return READ(ns, ns.inum);
}

/* The number of a process in the pid namespace of the settings, 0: invisible there. */
INLINE __u32 visible_pid(const struct settings *settings, struct task_struct *leader)
{
	struct pid *pid = READ(leader, thread_pid);
	struct upid *upid = upid_at(pid, settings->ns_level);

	if (!pid || READ(pid, level) < settings->ns_level || namespace_inum(upid) != settings->ns_inum)
		return 0;
	return READ(upid, nr);
}

INLINE __u64 cgroup_id(struct cgroup *cgroup)
{
	struct kernfs_node *node = READ(cgroup, kn);

	return READ(node, id);
}

/* The cgroup v2 of a task, also on machines with v1 and v2. */
INLINE struct cgroup *cgroup_of(struct task_struct *task)
{
	struct css_set *set = READ(task, cgroups);

	return READ(set, dfl_cgrp);
}

INLINE struct file *executed_by(struct task_struct *task)
{
	struct mm_struct *mm = READ(task, mm);

	return mm ? READ(mm, exe_file) : NULL;
}
