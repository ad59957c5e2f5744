# shellcheck shell=sh
# To be sourced, from any folder: names the cache folder and sees to it that
# `go` is one which can fetch the Go of go.mod by itself (1.21 or newer), where
# the machine has one: hack/setup gets it.
export MOORING_CACHE="${MOORING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mooring}"
# Distributions and `go env -w` may have set "local".
export GOTOOLCHAIN="${GOTOOLCHAIN:-auto}"
# Debian keeps mke2fs from the PATH of ordinary users.
case :$PATH: in *:/usr/sbin:*) ;; *) PATH=$PATH:/usr/sbin:/sbin ;; esac

mooring_go_works() {
	case $(GOTOOLCHAIN=local "$1" version 2>/dev/null) in
	*" go1."2[1-9]* | *" go1."[3-9][0-9]*) ;;
	*) return 1 ;;
	esac
}

# After the one in PATH: those of versioned packages, and of hack/setup.
if ! mooring_go_works go; then
	for mooring_go in /usr/lib/go-1.*/bin/go "$MOORING_CACHE"/go-bootstrap/usr/lib/go-1.*/bin/go; do
		mooring_go_works "$mooring_go" || continue
		PATH=${mooring_go%/go}:$PATH
		break
	done
fi

# With this tag libvirt's binding needs no header of libvirt; without it, or without
# cgo, shim/virt/libvirt is built without libvirt.
mooring_flags=${GOFLAGS-$(GOTOOLCHAIN=local go env GOFLAGS 2>/dev/null || :)}
case $mooring_flags in
*-tags*) ;;
*) export GOFLAGS="${mooring_flags:+$mooring_flags }-tags=libvirt_dlopen" ;;
esac
