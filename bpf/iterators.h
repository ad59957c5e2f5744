/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Programs over all tasks. User space runs them by reading a file. They write a
 * struct process for each reported process.
 */
#pragma once

/* Lists the tracked processes that are alive. */
SEC("iter/task") int list(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct process *process, copy;

	if (!task || leader_of(task) != task)
		return 0;
	process = find(READ(task, tgid), task);
	if (!process)
		return 0;
	copy_entry(&copy, process);
	if (alive(task)) /* still, so the entry was there during the copy */
		bpf_seq_write(ctx->meta->seq, &copy, sizeof(copy));
	return 0;
}

/* The group of an untracked process. */
INLINE __u64 group_of(struct task_struct *task, struct task_struct *leader)
{
	__u64 group = group_above((__u64)cgroup_of(task));
	struct task_struct *parent;
	struct process *of;
	__u32 tgid;

	if (group)
		return group;
	parent = leader_of(READ(leader, real_parent));
	tgid = READ(parent, tgid);
	of = begin_change(tgid, parent);
	if (!of)
		return 0;
	group = of->group;
	end_change(tgid, parent);
	return group;
}

/* Adds an untracked process that should be tracked. Without room, the next pass reports it again. */
INLINE void add_missing(struct seq_file *seq, struct task_struct *task, struct task_struct *leader)
{
	struct process new = { .group = group_of(task, leader) };
	struct file *file = executed_by(task);
	__u32 tgid = READ(task, tgid);

	if (file)
		set_file(&new, file);
	if ((!new.group && !new.emulator) || !describe(&new, leader, task))
		return;
	if (!bpf_seq_write(seq, &new, sizeof(new)) && !add(tgid, leader, &new))
		end(tgid, task);
}

/* Updates the entry of a tracked process. The caller holds its lock. */
INLINE void update(struct seq_file *seq, struct process *process, struct task_struct *task)
{
	struct file *file = executed_by(task);
	struct process now = *process;
	__u64 group = group_above((__u64)cgroup_of(task));

	if (!describe(&now, task, task))
		return;
	if (now.pid == process->pid)
		now.parent = process->parent; /* the parent at birth, not a later reaper */
	if (group && !now.bound)
		now.group = group;
	if (file)
		refresh_file(&now, file);
	if (now.pid == process->pid && now.group == process->group && now.emulator == process->emulator &&
	    now.inode == process->inode && now.device == process->device)
		return;
	if (bpf_seq_write(seq, &now, sizeof(now)))
		return;
	process->pid = now.pid;
	process->parent = now.parent;
	process->cgroup = now.cgroup;
	process->group = now.group;
	if (file)
		refresh_file(process, file);
}

/*
 * Corrects the map of processes and writes each correction. A correction that does
 * not fit into the buffer is not made: the kernel then shows the same task again.
 */
SEC("iter/task") int scan(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task, *leader;
	struct process *process;
	__u32 tgid;

	if (!task || !alive(task))
		return 0;
	leader = leader_of(task);
	tgid = READ(task, tgid);
	if (!find(tgid, leader)) {
		add_missing(ctx->meta->seq, task, leader);
		return 0;
	}
	process = task == leader ? begin_change(tgid, task) : NULL;
	if (process) {
		update(ctx->meta->seq, process, task);
		end_change(tgid, task);
	}
	return 0;
}

/* Whether the request names this process. */
INLINE bool is_requested(const struct request *request, const struct settings *settings, struct task_struct *task)
{
	__u64 start = READ(task, start_boottime);

	if (request->start % TICK == 0)
		start -= start % TICK;
	return start == request->start && visible_pid(settings, task) == request->pid;
}

/* Adds the untracked process of a request. */
INLINE int add_requested(const struct request *request, __u32 tgid, struct task_struct *task)
{
	struct process new = {
		.watched = request->watch != 0, .group = request->group, .bound = request->group != 0,
	};
	struct file *file = executed_by(task);
	int err;

	if (!describe(&new, task, task))
		return -ESRCH;
	if (file)
		set_file(&new, file);
	err = add(tgid, task, &new);
	if (!err)
		end(tgid, task);
	else if (err != -EEXIST)
		count_lost(err);
	return err == -EEXIST ? -EBUSY : err; /* another program had the lock */
}

/* Applies the request to one process, tracked or not. */
SEC("iter/task") int mark(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	const struct settings *settings = get_settings();
	__u32 first = 0, tgid;
	struct request *request = bpf_map_lookup_elem(&asked, &first);
	struct process *process;

	if (!task || !settings || !request || leader_of(task) != task || !alive(task))
		return 0;
	if (!is_requested(request, settings, task))
		return 0;
	request->start = READ(task, start_boottime);
	tgid = READ(task, tgid);
	process = begin_change(tgid, task);
	if (!process) {
		request->result = add_requested(request, tgid, task);
		return 0;
	}
	if (request->watch)
		process->watched = 1;
	if (request->group) {
		process->bound = 1;
		process->group = request->group;
	}
	request->result = 0;
	end_change(tgid, task);
	return 0;
}

/* Stores the pid namespace of the reader, because user space cannot learn its level. */
SEC("iter/task") int locate(struct bpf_iter__task *ctx)
{
	struct task_struct *task = current_task();
	struct pid *pid = READ(task, thread_pid);
	__u32 first = 0, level = READ(pid, level);
	struct settings *settings = bpf_map_lookup_elem(&config, &first);

	if (!settings)
		return 0;
	settings->ns_level = level;
	settings->ns_inum = namespace_inum(upid_at(pid, level));
	return 0;
}
