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
	int attempt;

	if (!task || leader_of(task) != task)
		return 0;
	process = find(READ(task, tgid), task);
	if (!process || !alive(task))
		return 0;
	for (attempt = 0; attempt < 8; attempt++) {
		copy = *process;
		if (!(copy.revision & 1) && copy.revision == *(volatile __u32 *)&process->revision)
			break;
	}
	bpf_seq_write(ctx->meta->seq, &copy, sizeof(copy));
	return 0;
}

/* The group of an untracked process. */
INLINE __u64 group_of(struct task_struct *task, struct task_struct *leader)
{
	__u64 group = group_above((__u64)cgroup_of(task));
	struct task_struct *parent;
	struct process *of;

	if (group)
		return group;
	parent = leader_of(READ(leader, real_parent));
	of = find(READ(parent, tgid), parent);
	return of ? of->group : 0;
}

/* Adds an untracked process that should be tracked. */
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

/* Updates the entry of a tracked process. */
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
		set_file(&now, file);
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
		set_file(process, file);
}

/*
 * Corrects the map of processes and writes each correction. A correction that does
 * not fit into the buffer is not made: the kernel then shows the same task again.
 */
SEC("iter/task") int scan(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task, *leader;
	struct process *process;

	if (!task || !alive(task))
		return 0;
	leader = leader_of(task);
	process = find(READ(task, tgid), leader);
	if (!process)
		add_missing(ctx->meta->seq, task, leader);
	else if (task == leader)
		update(ctx->meta->seq, process, task);
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

/* Applies the request to one process, tracked or not. */
SEC("iter/task") int mark(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	const struct settings *settings = get_settings();
	__u32 first = 0, tgid;
	struct request *request = bpf_map_lookup_elem(&asked, &first);
	struct process *process, new = {};
	struct file *file;

	if (!task || !settings || !request || leader_of(task) != task || !alive(task))
		return 0;
	if (!is_requested(request, settings, task) || !describe(&new, task, task))
		return 0;
	tgid = READ(task, tgid);
	process = find(tgid, task);
	if (!process) {
		file = executed_by(task);
		if (file)
			set_file(&new, file);
		new.watched = request->watch != 0;
		new.group = request->group;
		request->result = add(tgid, task, &new);
		process = find(tgid, task);
	}
	if (!process)
		return 0;
	request->result = 0;
	if (request->watch)
		process->watched = 1;
	if (request->group) {
		process->bound = 1;
		process->group = request->group;
	}
	end(tgid, task);
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
