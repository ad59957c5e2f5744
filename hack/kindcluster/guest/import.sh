#!/bin/sh
# import.sh TREE REFERENCE [--change=...] <ARCHIVE
#
# Runs `docker import` of the tree's docker on this machine, in namespaces of its own. The image goes
# into the tree's store. In an emulated node the import takes minutes. The mounts end with the mount
# namespace of the caller, so the tree is its own root and no directory is left.
set -eu
root=$1 reference=$2
shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
chroot "$root" dockerd --bridge=none --iptables=false --ip6tables=false >&2 &
daemon=$!
i=0
until chroot "$root" /usr/bin/docker version >/dev/null 2>&1; do
	i=$((i + 1))
	[ $i -le 300 ] || { echo "dockerd does not answer" >&2 && exit 1; }
	sleep 0.2
done
chroot "$root" /usr/bin/docker import "$@" - "$reference"
kill $daemon
wait $daemon || :
