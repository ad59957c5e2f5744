/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Types and maps shared by the kernel side and the Go side. */
#pragma once

#define MAX_DEPTH 32 /* of cgroups: deeper ones have no group */
#define NAME_SIZE 64 /* of a file name with its NUL; longer names are cut */

enum kind {
	KIND_FORK = 1,
	KIND_EXEC,
	KIND_EXIT,
	KIND_MOVE,
};

/*
 * An entry of the map of processes. The layout is pinned: a change needs another
 * schema (pins.go).
 */
struct process {
	__u64 start; /* CLOCK_BOOTTIME in ns, of the thread group's leader */
	__u64 group; /* id of the registered cgroup, 0: none */
	__u64 cgroup;
	__u64 inode; /* of the executable */
	__u32 device;
	__u32 pid;      /* in the pid namespace of the settings */
	__u32 parent;   /* likewise */
	__u32 revision; /* odd during a write of the executable */
	__u32 emulator; /* this and the next two are words, so that each has one writer */
	__u32 watched;
	__u32 bound; /* group set by Tracker.Bind: no cgroup changes it */
	__u32 share; /* index in tally.shares; never changes */
	__u8 name[NAME_SIZE];
};

struct event {
	__u64 time; /* CLOCK_BOOTTIME in ns */
	enum kind kind;
	__u32 status; /* KIND_EXIT: as in wait(2). KIND_EXEC: 1 after the file of an emulator */
	struct process process;
};

struct settings {
	__u64 name_lengths; /* bit n: an emulator name has n bytes */
	__u32 ns_level;     /* pid namespace of all process numbers */
	__u32 ns_inum;
	__u64 unscanned;    /* fresh_bit(id) of the cgroups registered since the last scan */
	__u64 step;         /* power of two: each step bytes of events wake the reader */
	__u64 complete;     /* 1 + lost processes at the last full scan; 0: never scanned */
	__u32 ordinary;     /* entries of the map for processes that are no emulators */
	__u32 share;        /* entries of a share for processes that are no emulators */
	__u32 share_total;  /* entries of a share */
	__u32 unused;
};

/* Input and result of the program mark. */
struct request {
	__u64 start; /* a multiple of TICK matches any time in that tick; the result is exact */
	__u64 group; /* 0: no change */
	__u32 pid;
	__u32 watch;
	__s32 result; /* 0, or -errno */
	__u32 unused;
};

/* Input of the program edit: user space must not change the map of processes itself. */
struct change {
	struct process process; /* to add if missing; with forget, only its start is used */
	__u32 tgid;
	__u32 forget;
};

/*
 * The number of tracked processes per low bits of the process number. Nearly all
 * slots are 0, so an untracked process pays one array lookup. A hash lookup with
 * cold caches costs more.
 */
#define SLOTS 65536

struct filter {
	__u32 processes[SLOTS];
};

/*
 * The number of entries in all and per share. A share belongs to a group, or to a
 * cgroup without a group. Groups whose shares collide have less room.
 */
#define SHARE_BITS 16

struct tally {
	__u32 entries;
	__u32 shares[1 << SHARE_BITS];
};

/*
 * Programs in a change or removal of an entry, by low bits of the process number. The
 * one that makes it 1 holds the lock.
 */
#define LOCKS 4096

struct locks {
	__u32 holders[LOCKS];
};

#define TICK 10000000ULL /* ns: the unit of /proc/PID/stat */

enum counter {
	COUNT_LOST_EVENTS,    /* the ring was full */
	COUNT_LOST_PROCESSES, /* found no room when they started */
	COUNT_STALE,          /* a reused number showed a missed exit */
	COUNTERS,
};

#define MAP(map, map_type, key_type, value_type, entries)   \
	struct {                                            \
		__uint(type, map_type);                     \
		__type(key, key_type);                      \
		__type(value, value_type);                  \
		__uint(max_entries, entries);               \
	} map SEC(".maps")

typedef __u8 file_name[NAME_SIZE];

/* Small sizes; the Go side sets its own. */
MAP(processes, BPF_MAP_TYPE_HASH, __u32, struct process, 1024); /* by global tgid */
MAP(groups, BPF_MAP_TYPE_HASH, __u64, __u64, 1024);             /* by cgroup id */
MAP(emulators, BPF_MAP_TYPE_HASH, file_name, __u8, 1024);
MAP(config, BPF_MAP_TYPE_ARRAY, __u32, struct settings, 1);
MAP(asked, BPF_MAP_TYPE_ARRAY, __u32, struct request, 1);
MAP(tracked, BPF_MAP_TYPE_ARRAY, __u32, struct filter, 1);
MAP(locked, BPF_MAP_TYPE_ARRAY, __u32, struct locks, 1);
MAP(tally, BPF_MAP_TYPE_ARRAY, __u32, struct tally, 1);
MAP(counters, BPF_MAP_TYPE_PERCPU_ARRAY, enum counter, __u64, COUNTERS);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
	__type(value, struct event);
} events SEC(".maps");
