/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the kernel side and the Go side share, and the maps that hold it. */
#pragma once

#define MAX_DEPTH 32 /* of cgroups: what is deeper belongs to nobody */
#define NAME_SIZE 64 /* a file's name and a NUL; longer names are cut */

enum kind {
	KIND_FORK = 1,
	KIND_EXEC,
	KIND_EXIT,
	KIND_MOVE,
};

/*
 * A process, as the map holds it. The layout is pinned: it may grow at its end,
 * and any other change needs another schema (pins.go).
 */
struct process {
	__u64 start; /* CLOCK_BOOTTIME in ns, of the thread group's leader */
	__u64 group; /* id of the registered cgroup, 0: none */
	__u64 cgroup;
	__u64 inode; /* of the executed file */
	__u32 device;
	__u32 pid;      /* in the pid namespace of settings */
	__u32 parent;   /* likewise */
	__u32 revision; /* odd while the executed file is being written */
	__u32 emulator; /* these three are words of their own, so that each has one writer */
	__u32 watched;
	__u32 bound; /* the group was set by hand: no cgroup changes it */
	__u32 share; /* of tally, that it was counted in; never changes */
	__u8 name[NAME_SIZE];
};

struct event {
	__u64 time; /* CLOCK_BOOTTIME in ns */
	enum kind kind;
	__u32 status; /* KIND_EXIT: as wait(2) has it */
	struct process process;
};

struct settings {
	__u64 name_lengths; /* bit n: an emulator's name has n bytes */
	__u32 ns_level;     /* the pid namespace that pids are of */
	__u32 ns_inum;
	__u64 unscanned;    /* bit fresh_bit(id): of cgroups whose processes were not looked for */
	__u64 step;         /* a power of two: any event wakes that fills as many more bytes of the ring */
	__u64 complete;     /* 1 + COUNT_LOST_PROCESSES, when user space last looked for all; 0: never */
	__u32 ordinary;     /* so many entries, and there is room for emulators alone */
	__u32 share;        /* so many entries of a share, and likewise */
	__u32 share_total;  /* so many, and the share is full */
	__u32 unused;
};

/* What the program mark is to do, and whether it did. */
struct request {
	__u64 start; /* a multiple of TICK: any time in that tick */
	__u64 group; /* 0: leave */
	__u32 pid;
	__u32 watch;
	__s32 result; /* 0, or -errno */
	__u32 unused;
};

/* For the program edit: user space must not change the map of processes itself. */
struct change {
	struct process process; /* to enter as it is, if nothing is there; to forget: its start */
	__u32 tgid;
	__u32 forget;
};

/*
 * How many tracked processes there are for the low bits of their numbers: nearly
 * always 0, and so nearly all that a process pays that is not tracked. A lookup in
 * a hash is dear where the caches are cold.
 */
#define SLOTS 65536

struct filter {
	__u32 processes[SLOTS];
};

/*
 * How many entries there are, and how many of each share: the processes of a group,
 * or of a cgroup without one. Groups that have a share in common by chance have less
 * room, and that is all.
 */
#define SHARE_BITS 16

struct tally {
	__u32 entries;
	__u32 shares[1 << SHARE_BITS];
};

#define TICK 10000000ULL /* ns: what /proc/PID/stat counts in */

enum counter {
	COUNT_LOST_EVENTS,    /* the ring was full */
	COUNT_LOST_PROCESSES, /* the map of processes had no room */
	COUNT_STALE,          /* a number was found reused, and its exit had not been seen */
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

/* Sizes are those of small nodes; the Go side sets its own. */
MAP(processes, BPF_MAP_TYPE_HASH, __u32, struct process, 1024); /* by global tgid */
MAP(groups, BPF_MAP_TYPE_HASH, __u64, __u64, 1024);             /* by cgroup id */
MAP(emulators, BPF_MAP_TYPE_HASH, file_name, __u8, 256);
MAP(config, BPF_MAP_TYPE_ARRAY, __u32, struct settings, 1);
MAP(asked, BPF_MAP_TYPE_ARRAY, __u32, struct request, 1);
MAP(tracked, BPF_MAP_TYPE_ARRAY, __u32, struct filter, 1);
MAP(tally, BPF_MAP_TYPE_ARRAY, __u32, struct tally, 1);
MAP(counters, BPF_MAP_TYPE_PERCPU_ARRAY, enum counter, __u64, COUNTERS);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
	__type(value, struct event);
} events SEC(".maps");
