/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The map of processes and its limits. */
#pragma once

INLINE void count(enum counter which)
{
	__u64 *counter = bpf_map_lookup_elem(&counters, &which);

	if (counter)
		*counter += 1; /* per CPU */
}

INLINE const struct settings *get_settings(void)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(&config, &first);
}

INLINE __u32 *slot_of(__u32 tgid)
{
	__u32 first = 0;
	struct filter *filter = bpf_map_lookup_elem(&tracked, &first);

	return filter ? &filter->processes[tgid % SLOTS] : NULL;
}

INLINE bool may_be_tracked(__u32 tgid)
{
	__u32 *slot = slot_of(tgid);

	return slot && *(volatile __u32 *)slot;
}

/* Any pod can start an emulator, so emulators without a group use the share of their cgroup. */
INLINE __u32 share_of(const struct process *process)
{
	__u64 id = process->group ? process->group : process->cgroup;

	return id * 0x9e3779b97f4a7c15ULL >> (64 - SHARE_BITS);
}

INLINE void uncount(struct tally *tally, __u32 share)
{
	__sync_fetch_and_add(&tally->shares[share % (1 << SHARE_BITS)], -1);
	__sync_fetch_and_add(&tally->entries, -1);
}

/*
 * Counts an entry if there is room. Ordinary processes leave a part of the map, and
 * of their share, to emulators, and no share can fill that part. A watched process
 * has room until the map is full.
 */
INLINE bool reserve_entry(const struct settings *settings, struct tally *tally, const struct process *process)
{
	volatile __u32 *share = &tally->shares[process->share % (1 << SHARE_BITS)], *entries = &tally->entries;

	__sync_fetch_and_add(share, 1);
	__sync_fetch_and_add(entries, 1); /* a use of its result would need a later kernel on arm64 */
	if (process->watched)
		return true;
	if (process->emulator ? *share <= settings->share_total :
				*share <= settings->share && *entries <= settings->ordinary)
		return true;
	uncount(tally, process->share);
	return false;
}

/*
 * A bucket of the map can be busy: this program interrupted another one that holds
 * its lock, or, since 6.15, it waited too long for a CPU that the hypervisor paused.
 */
#define BUSY_TRIES 8

INLINE volatile __u32 *holders_of(__u32 tgid)
{
	__u32 first = 0;
	struct locks *locks = bpf_map_lookup_elem(&locked, &first);

	return locks ? &locks->holders[tgid % LOCKS] : NULL;
}

/*
 * Locks the entry of a process number. The kernel reuses the memory of a removed entry
 * at once. So a program changes or removes an entry only under its lock. It cannot wait
 * for another CPU that the hypervisor paused: after some microseconds it gives up. False
 * without a loss: another program has removed the entry, as at the end of all threads.
 */
#define LOCK_TRIES 128

static __noinline bool lock(__u32 tgid)
{
	volatile __u32 *holders = holders_of(tgid);

	for (int tries = 0; holders && tries < LOCK_TRIES; tries++) {
		__sync_fetch_and_add(holders, 1);
		if (*holders == 1)
			return true;
		__sync_fetch_and_add(holders, -1);
		if (!bpf_map_lookup_elem(&processes, &tgid))
			return false;
	}
	count(COUNT_LOST_EVENTS); /* user space then scans for the missed change */
	return false;
}

INLINE void unlock(__u32 tgid)
{
	volatile __u32 *holders = holders_of(tgid);

	if (holders)
		__sync_fetch_and_add(holders, -1);
}

/* Counts before it adds the entry, so that the filter never hides an entry. */
static __noinline int enter(__u32 tgid, struct process *process)
{
	__u32 first = 0, *slot = slot_of(tgid);
	struct tally *counts = bpf_map_lookup_elem(&tally, &first);
	const struct settings *settings = get_settings();
	int err = -EBUSY;

	if (!process || !slot || !counts || !settings)
		return -ESRCH;
	if (bpf_map_lookup_elem(&processes, &tgid))
		return -EEXIST;
	process->share = share_of(process);
	if (!reserve_entry(settings, counts, process))
		return -E2BIG;
	__sync_fetch_and_add(slot, 1);
	for (int tries = 0; tries < BUSY_TRIES; tries++) {
		err = bpf_map_update_elem(&processes, &tgid, process, BPF_NOEXIST);
		if (!err || err == -EEXIST || err == -E2BIG || err == -ENOMEM)
			break;
	}
	if (err) {
		__sync_fetch_and_add(slot, -1);
		uncount(counts, process->share);
	}
	return err;
}

/* Removes an entry. The caller holds its lock. */
INLINE bool remove_entry(__u32 tgid, __u32 share)
{
	__u32 first = 0, *slot = slot_of(tgid);
	struct tally *counts = bpf_map_lookup_elem(&tally, &first);
	int err = -EBUSY;

	if (!slot || !counts)
		return false;
	for (int tries = 0; tries < BUSY_TRIES; tries++) {
		err = bpf_map_delete_elem(&processes, &tgid);
		if (!err || err == -ENOENT)
			break;
	}
	if (err && err != -ENOENT)
		count(COUNT_LOST_EVENTS); /* user space then scans for the ended process */
	if (err)
		return false;
	__sync_fetch_and_add(slot, -1);
	uncount(counts, share);
	return true;
}

/*
 * Removes the entry of the process that started at this time, and copies it to last if
 * set. Of several concurrent calls, one succeeds.
 */
static __noinline bool forget(__u32 tgid, __u64 start, struct process *last)
{
	struct process *process;
	__u32 share;
	bool removed = false;

	if (!lock(tgid))
		return false;
	process = bpf_map_lookup_elem(&processes, &tgid);
	if (process && process->start == start) {
		share = process->share;
		if (last)
			*last = *process;
		removed = remove_entry(tgid, share);
	}
	unlock(tgid);
	return removed;
}
