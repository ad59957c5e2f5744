/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Changes of the map of processes and their events. */
#pragma once

/* Not for each event: without a reader, a wake-up is expensive and useless. */
INLINE bool fills_up(const struct settings *settings)
{
	__u64 now = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA), before = now - sizeof(struct event);

	return (now ^ before) & ~(settings->step - 1);
}

/*
 * Writes an event. An event is a hint, the map is the truth: the event wakes the
 * reader only if it is urgent or the ring fills up.
 */
static __noinline int write_event(enum kind kind, const struct process *process, __u32 status, bool urgent)
{
	const struct settings *settings = get_settings();
	struct event *event;

	if (!process || !settings)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		count(COUNT_LOST_EVENTS);
		return 0;
	}
	event->time = bpf_ktime_get_boot_ns();
	event->kind = kind;
	event->status = status;
	event->process = *process;
	bpf_ringbuf_submit(event, urgent || fills_up(settings) ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	return 0;
}

/* Finds the entry of a process, and removes the entry of an earlier process with its number. */
INLINE struct process *find(__u32 tgid, struct task_struct *leader)
{
	struct process *process = bpf_map_lookup_elem(&processes, &tgid);

	if (!process || process->start == READ(leader, start_boottime))
		return process;
	if (forget(tgid, process->start, NULL))
		count(COUNT_STALE);
	return NULL;
}

/* Finds and locks the entry of a process. NULL: it has none, or another program has the lock. */
INLINE struct process *begin_change(__u32 tgid, struct task_struct *leader)
{
	struct process *process = find(tgid, leader);

	if (!process || !lock(tgid))
		return NULL;
	process = bpf_map_lookup_elem(&processes, &tgid);
	if (process && process->start == READ(leader, start_boottime))
		return process;
	unlock(tgid); /* it ended before the lock */
	return NULL;
}

/* Copies the entry of a process that cannot end meanwhile. Another program may change the entry. */
INLINE void copy_entry(struct process *to, const struct process *from)
{
	int attempt;

	for (attempt = 0; attempt < 8; attempt++) {
		*to = *from;
		if (!(to->revision & 1) && to->revision == *(volatile const __u32 *)&from->revision)
			break;
	}
}

/* The nearest registered cgroup from this one upwards, 0: none. */
static __noinline __u64 group_above(__u64 address)
{
	struct cgroup *cgroup = (void *)address;
	int depth;

	for (depth = 0; depth < MAX_DEPTH; depth++) {
		struct cgroup_subsys_state *above;
		__u64 id = cgroup_id(cgroup);

		if (bpf_map_lookup_elem(&groups, &id))
			return id;
		above = READ(cgroup, self.parent);
		if (!above)
			return 0;
		cgroup = (void *)above; /* its first member */
	}
	return 0;
}

/* Sets the executable. The revision shows readers an unfinished write. */
static __noinline void set_file(struct process *process, struct file *file)
{
	struct dentry *dentry = READ(file, f_path.dentry);
	struct inode *inode = READ(file, f_inode);
	struct super_block *super = READ(inode, i_sb);
	const unsigned char *text = READ(dentry, d_name.name);
	file_name name = {};

	bpf_probe_read_kernel_str(name, sizeof(name), text);
	process->revision++;
	__builtin_memcpy(process->name, name, sizeof(name));
	process->inode = READ(inode, i_ino);
	process->device = READ(super, s_dev);
	process->emulator = READ(dentry, d_name.len) < NAME_SIZE && bpf_map_lookup_elem(&emulators, name);
	process->revision++;
}

/*
 * Sets the executable at a scan. After the execution, a rename of the file changes
 * nothing: the name at the execution counts. A cut name keeps its result.
 */
static __noinline void refresh_file(struct process *process, struct file *file)
{
	struct inode *inode = READ(file, f_inode);
	struct super_block *super = READ(inode, i_sb);
	file_name name;

	if (process->inode != READ(inode, i_ino) || process->device != READ(super, s_dev)) {
		set_file(process, file);
		return;
	}
	__builtin_memcpy(name, process->name, sizeof(name));
	if (!name[NAME_SIZE - 2])
		process->emulator = !!bpf_map_lookup_elem(&emulators, name);
}

/* Sets all but executable and group. False if the process is invisible in the namespace. */
static __noinline bool describe(struct process *process, struct task_struct *leader, struct task_struct *task)
{
	const struct settings *settings = get_settings();
	struct task_struct *parent = READ(leader, real_parent);

	if (!settings)
		return false;
	process->pid = visible_pid(settings, leader);
	process->parent = visible_pid(settings, leader_of(parent));
	process->start = READ(leader, start_boottime);
	process->cgroup = cgroup_id(cgroup_of(task));
	return process->pid != 0;
}

/* Adds an entry. Nonzero: it exists, or there is no room. */
static __noinline int add(__u32 tgid, struct task_struct *leader, struct process *process)
{
	int err = enter(tgid, process);

	if (err == -EEXIST) {
		if (find(tgid, leader))
			return err;
		err = enter(tgid, process); /* find removed an earlier process */
	}
	return err;
}

/* Counts a process that could not be added. A scan can add it, unless it has no room. */
INLINE void count_lost(int err)
{
	count(COUNT_LOST_PROCESSES);
	if (err != -E2BIG)
		count(COUNT_LOST_EVENTS);
}

/* Adds an entry and writes an event. An emulator without room gets an event, too. */
static __noinline int add_and_report(__u32 tgid, struct task_struct *leader, struct process *process, enum kind kind)
{
	int err;

	if (!process)
		return 0;
	err = add(tgid, leader, process);
	if (err && err != -EEXIST)
		count_lost(err);
	if (!err || (err != -EEXIST && process->emulator))
		write_event(kind, process, 0, process->emulator);
	return err;
}

/*
 * Removes an entry after the last thread. Several threads may each be the last, and a
 * program that adds or changes an entry checks again. The one whose removal succeeds
 * writes the event.
 */
static __noinline void end(__u32 tgid, struct task_struct *task)
{
	struct process last;

	if (alive(task) || !bpf_map_lookup_elem(&processes, &tgid))
		return;
	if (forget(tgid, READ(leader_of(task), start_boottime), &last))
		write_event(KIND_EXIT, &last, exit_status(task), last.emulator || last.watched);
}

/* Unlocks an entry. The process may have ended meanwhile: its own program found the lock taken. */
INLINE void end_change(__u32 tgid, struct task_struct *task)
{
	unlock(tgid);
	end(tgid, task);
}
